"""``fencelock run``: exit statuses, what the command is given, and how long the lock is kept."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from fencelock._runtime.log import log
from fencelock.cli import main
from tests.cli.shell import eventually
from tests.servers import Server, binaries
from tests.tls import Front
from tests.waiting import machine_seconds

SH = ("--", "sh", "-c")


def held(shell, name="x"):
    return shell("show", name, "--json").json["held"]


# --- exit statuses --------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("status", [0, 1, 3, 75, 76, 255])
def test_the_exit_status_is_the_commands_own(shell, status):
    assert shell("run", "x", *SH, f"exit {status}").status == status
    assert not held(shell)


@pytest.mark.parametrize("name", ["TERM", "KILL", "INT", "SEGV"])
def test_a_command_that_a_signal_killed_gives_128_and_its_number(shell, name):
    number = getattr(signal, f"SIG{name}")
    assert shell("run", "x", *SH, f"ulimit -c 0; kill -{name} $$").status == 128 + number


def test_busy_gives_75_and_runs_nothing(shell, tmp_path):
    shell("acquire", "x")
    for wait in (["-n"], ["-w", "500ms"], ["-w", "0"]):
        result = shell("run", "x", *wait, "--", "touch", tmp_path / "ran")
        assert result.status == 75
        assert "fencelock: 'x' was not granted" in result.err
        assert "hint: `fencelock show x`" in result.err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("command", [("run", "x", "-n", "--", "true"), ("acquire", "x", "-n")])
def test_busy_says_who_holds_and_since_when(shell, command):
    shell("acquire", "x", "--label", "the-nightly-job")
    said = shell(*command).err
    assert re.search(r"'x' was not granted.*: held by \S+:\d+ \(the-nightly-job\) for \d", said)


@pytest.mark.parametrize(("number", "said"), [(0, False), (7, True)])
def test_busy_exit_changes_the_status_and_0_is_a_silent_skip(shell, number, said):
    shell("acquire", "x")
    result = shell("run", "x", "-n", "-E", number, "--", "false")
    assert result.status == number
    assert bool(result.err) is said


def test_a_server_that_is_not_there_gives_69(shell, tmp_path):
    result = shell("run", "x", "--url", f"unix://{tmp_path}/nothing", "--", "true")
    assert result.status == 69
    assert result.err.startswith("fencelock: ")
    assert "hint: " in result.err


def test_a_refusal_gives_77(shell, server):
    server.command("ACL", "SETUSER", "guest", "on", ">pw", "~*", "&*", "+@all", "-set")
    url = f"redis://guest:pw@127.0.0.1:{server.port}/0"
    assert shell("run", "x", "--url", url, "--", "true").status == 77
    wrong = url.replace("pw", "wrong")
    result = shell("run", "x", "--url", wrong, "--", "true")
    assert result.status == 77
    assert "hint: redis://user:password@" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["run", "x"],
        ["run", "x", "--"],
        ["run", "x", "true"],
        ["run", "--", "true"],
        ["run", "x", "y", "--", "true"],
        ["run", "x", "--no-such", "--", "true"],
        ["run", "x", "-w", "5x", "--", "true"],
        ["run", "x", "-w", "-5", "--", "true"],
        ["run", "x", "-w", "1", "-n", "--", "true"],
        ["run", "x", "-E", "256", "--", "true"],
        ["run", "x", "--ttl", "0", "--", "true"],
        ["run", "x", "--ttl", "20000d", "--", "true"],
        ["run", "x", "--max-hold", "0", "--", "true"],
        ["run", "x", "--on-lost", "pray", "--", "true"],
        ["run", "x", "--url", "http://host", "--", "true"],
        ["run", "", "--", "true"],
        ["run", "x~queue", "--", "true"],
        ["run", "x", "--slots", "0", "--", "true"],
        ["run", "x", "--slots", "two", "--", "true"],
        ["run", "x", "--slots", "1", "--shared", "--", "true"],
        ["run", "x", "--replicas", "0", "--", "true"],
        ["run", "x", "--replicas", "x", "--", "true"],
        ["run", "x", "--replicas-timeout", "0s", "--", "true"],
        ["once", "x", "--", "true"],
        ["once", "x", "--within", "0", "--", "true"],
        ["once", "x", "--within", "1h"],
        ["once", "x", "--within", "1h", "--"],
        ["once", "x", "--within", "1h", "--at-least", "1s", "--", "true"],
        ["once", "x~once", "--within", "1h", "--", "true"],
        ["elect", "x"],
        ["elect", "x", "--"],
        ["elect", "--", "true"],
        ["elect", "x", "--restart", "x", "--", "true"],
        ["elect", "x", "--on-lost", "warn", "--", "true"],
        ["elect", "x", "-n", "--", "true"],
        ["elect", "x", "--candidate", "", "--", "true"],
        ["elect", "x", "--candidate", "a\nb", "--", "true"],
        *([command, "x"] for command in ("renew", "release")),
        *([command, "x", "--holder", ""] for command in ("renew", "release")),
        *([command, "x", "--holder", "a b"] for command in ("renew", "release")),
        [],
        ["no-such-command"],
    ],
)
def test_a_command_line_that_means_nothing_gives_64(words, capsys, monkeypatch):
    monkeypatch.setattr(log, "prepare", log.prepare)  # a command keeps the library's log to itself
    assert main(words) == 64
    out, err = capsys.readouterr()
    assert err.startswith("fencelock: ")
    assert not out


def test_what_cannot_be_run_gives_126_or_127_and_keeps_no_lock(shell, tmp_path):
    for command, status in (("./no-such", 127), ("no-such-program", 127), (tmp_path, 126)):
        result = shell("run", "x", "--at-least", "1h", "--json", "--", command)
        assert result.status == status
        assert "cannot run" in result.err
        assert result.report["outcome"] == "not run"
        assert not held(shell)


def test_without_trouble_nothing_is_printed(shell):
    result = shell("run", "x", "--", "true")
    assert (result.out, result.err) == ("", "")


# --- what the command is given --------------------------------------------------------------------


def test_the_command_finds_the_lease_in_its_environment(shell, server):
    seen = json.loads(
        shell(
            *("run", "the lock", "--ttl", "20s", "--", sys.executable, "-c"),
            "import os, json; print(json.dumps(dict(os.environ)))",
        ).out
    )
    assert seen["FENCELOCK_NAME"] == "the lock"
    assert int(seen["FENCELOCK_FENCE"]) > 0
    assert len(seen["FENCELOCK_HOLDER"]) >= 20
    assert seen["FENCELOCK_URL"] == shell.env["FENCELOCK_URL"]
    left = int(seen["FENCELOCK_UNTIL"]) / 1000 - time.time()
    assert 5 < left < 20


def test_the_embedded_servers_address_is_passed_on(shell, embedded):
    result = shell("run", "x", *SH, "echo $FENCELOCK_URL", env=embedded)
    assert result.out.startswith(f"unix://{embedded['FENCELOCK_DIR']}")
    # No terminal, as in a crontab, which inherits no FENCELOCK_URL.
    for words in (("run",), ("once", "--within", "1h"), ("acquire",)):
        command = () if words == ("acquire",) else ("--", "true")
        name = words[0]
        assert "no server is configured" in shell(*words, name, *command, env=embedded).err
        assert not shell(*words, f"{name}2", "-q", *command, env=embedded).err


def test_a_variable_that_is_empty_is_named(shell):
    """As by a secret without a value: each host would have a server of its own."""
    for value in ("", " "):
        result = shell("run", "x", "--", "true", env={"FENCELOCK_URL": value})
        assert result.status == 64
        assert "FENCELOCK_URL is set but empty" in result.err


def test_stdin_and_stdout_are_the_commands(shell):
    data = "".join(f"line {n}\n" for n in range(20000))
    process = shell.start("run", "x", "--", "cat", stdin=subprocess.PIPE)
    out, err = process.popen.communicate(data, timeout=15)
    assert (out, err, process.popen.returncode) == (data, "", 0)


def test_a_stdin_that_the_command_closes_is_closed(shell):
    process = shell.start("run", "x", *SH, "exec <&-; echo closed; sleep 30", stdin=subprocess.PIPE)
    assert process.popen.stdout.readline() == "closed\n"
    pipe = os.dup(process.popen.stdin.fileno())
    os.set_blocking(pipe, False)  # a pipe that somebody still holds would fill up
    process.close_stdin()

    def refused():
        try:
            os.write(pipe, b"x")
        except BrokenPipeError:
            return True
        except BlockingIOError:
            return False

    eventually(refused, "a broken pipe", patience=5)
    os.close(pipe)


def test_other_descriptors_reach_the_command(shell):
    read, write = os.pipe()
    code = f"import os; os.write({write}, b'through\\n')"
    shell("run", "x", "--", sys.executable, "-c", code, pass_fds=(write,))
    os.close(write)
    with os.fdopen(read) as file:
        assert file.read() == "through\n"


def test_signals_that_were_ignored_stay_ignored_and_others_are_as_usual(shell):
    code = "grep -E '^Sig(Ign|Blk)' /proc/self/status"
    usual = subprocess.run(["sh", "-c", code], capture_output=True, text=True, check=True).stdout
    assert shell("run", "x", *SH, code).out == usual
    result = subprocess.run(
        [
            "sh",
            "-c",
            'trap "" HUP; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "fencelock",
            "run",
            "x",
            *SH,
            code,
        ],
        env=shell.env,
        capture_output=True,
        text=True,
        check=True,
    )
    ignored = int(result.stdout.split()[-1], 16)
    assert ignored & 1 << signal.SIGHUP - 1


# --- exclusion ------------------------------------------------------------------------------------


def test_runs_of_one_lock_exclude_each_other_and_all_get_their_turn(shell, tmp_path):
    code = """
import os, pathlib, sys
folder = pathlib.Path(sys.argv[1])
os.mkdir(folder / "inside")  # fails when somebody else is there
with open(folder / "turns", "a") as file:
    file.write(os.environ["FENCELOCK_FENCE"] + "\\n")
os.rmdir(folder / "inside")
"""
    words = ("run", "x", "-q", "--", sys.executable, "-c", code, tmp_path)
    runs = [shell.start(*words) for _ in range(8)]
    assert [run.end() for run in runs] == [0] * 8
    fences = [int(line) for line in (tmp_path / "turns").read_text().splitlines()]
    assert len(fences) == 8
    assert fences == sorted(set(fences))


# --- how long -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1])
def test_at_least_keeps_the_lock_after_a_fast_command_and_ends_at_once(shell, status):
    began = time.monotonic()
    result = shell("run", "x", "--at-least", "1h", *SH, f"exit {status}")
    assert result.status == status
    assert time.monotonic() - began < 10
    info = shell("show", "x", "--json").json
    assert info["held"]
    assert 3500 < info["lease"] <= 3600


def test_max_hold_stops_the_command_and_ends_the_lock(shell):
    words, report = shell.reporter(handles="!TERM")
    began = time.monotonic()
    result = shell("run", "x", "--max-hold", "1.2s", "--grace", "0.3s", "--json", "--", *words)
    assert result.status == 76
    assert "max_hold" in result.err
    assert 0.5 < time.monotonic() - began < 3 + machine_seconds()
    assert "SIGTERM" in report.words()
    eventually(lambda: not held(shell), "the end of the lock")


# --- JSON -----------------------------------------------------------------------------------------


def test_json_tells_how_it_went(shell):
    report = shell("run", "x", "--json", *SH, "sleep 0.2; exit 3").report
    assert report["name"] == "x"
    assert report["fence"] > 0
    assert (report["outcome"], report["exit"]) == ("ran", 3)
    assert report["held"] >= 0.2
    assert report["waited"] >= 0
    shell("acquire", "x")
    result = shell("run", "x", "-n", "--json", "--", "true")
    assert result.report["outcome"] == "busy"
    assert (result.report["exit"], result.report["fence"], result.report["held"]) == (75, None, 0.0)


@pytest.mark.parametrize("binary", binaries(), ids=str)
def test_it_works_on_every_kind_of_server(shell, binary):
    with Server(binary) as server:
        for url in (server.url, server.tcp_url):
            result = shell("run", "x", "--url", url, *SH, "exit 9")
            assert result.status == 9, result


# All that ``run`` may import of Python's own modules, with what these import themselves. Each more
# is a part of the start: ``typing`` alone was a tenth of it, redis-py would double it.
MAY = "_ctypes _datetime _sha1 _signal atexit collections contextlib contextvars copy enum errno gc"
MAY += " hiredis heapq math mmap pwd runpy select signal socket struct threading time weakref"
OURS = ("fencelock.aio", "fencelock.embedded", "fencelock._io.sources.client", "fencelock.status")
RARE = ("barrier", "election", "event_latch", "multi", "once", "rwlock", "semaphore")
OURS += tuple(f"fencelock.blocking.{name}" for name in RARE)


def imported(env, *words):
    """Return the modules that a program and its children import."""
    words = [sys.executable, "-X", "importtime", *words]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def loaded(shell, url):
    """Return which modules a run loaded, in its own process or in the guard's.

    Quiet: on a slow machine it would say what it waits for, and load what that needs.
    """
    env = shell.env | {"FENCELOCK_URL": url}
    found = imported(env, "-m", "fencelock", "run", "--quiet", "x", "--", "true")
    assert "fencelock.cli.run.supervisor" in found
    return found


def test_a_plain_server_needs_few_modules(shell, server):
    """Start-up is what a cron job pays."""
    may = imported(shell.env, "-c", "import __future__, " + ", ".join(MAY.split()))
    for url in (server.url, server.tcp_url):
        found = loaded(shell, url)
        assert not found & {*OURS}
        assert {name for name in found - may if not name.startswith("fencelock")} == set()


def test_tls_is_left_to_redis_py(shell, server, folder):
    """The way to the server is another, and nothing else."""
    with Front(server, folder) as front:
        found = loaded(shell, front.url)
    assert found & {"redis", "ssl", *OURS} == {"fencelock._io.sources.client", "redis", "ssl"}
