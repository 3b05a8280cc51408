"""``ls``, ``show``, ``revoke``, ``server`` and the help."""

import os
import signal

import pytest

from fencelock.cli import COMMANDS, main
from fencelock.cli.arguments import duration
from fencelock.cli.output import human, visible

# --- ls and show ----------------------------------------------------------------------------------


def test_ls_lists_what_is_held(shell):
    assert shell("ls").out == ""
    assert "no locks" in shell("ls").err
    told = shell("acquire", "orders:1", "--label", "ann", "--ttl", "50s", "--json").json
    shell("acquire", "bills:1")
    header, first, second = shell("ls").out.splitlines()
    assert header.split()[:4] == ["NAME", "STATE", "HOLDER", "LABEL"]
    assert first.startswith("bills:1")
    name, state, holder, label, held_for, lease, fence, waiting = second.split()
    assert (name, state, label, waiting) == ("orders:1", "held", "ann", "0")
    assert holder == f"{os.uname().nodename}:{os.getpid()}"
    assert held_for.endswith("s")
    assert 40 <= int(lease.removesuffix("s")) < 50
    assert int(fence) == told["fence"]


def test_ls_matches_a_glob_and_a_prefix(shell):
    for name in ("a:1", "a:2", "b:1"):
        shell("acquire", name)
    assert [each["name"] for each in shell("ls", "a:*", "--json").json] == ["a:1", "a:2"]
    assert shell("ls", "--json", "--prefix", "other:").json == []
    for span, status in (("1ms", 1), ("1h", 0)):
        assert shell("ls", "--held-longer", span).status == status
    assert shell("ls", "c*").err == "fencelock: no locks that match 'c*'\n"


def test_ls_shows_released_ones_when_asked(shell):
    shell("run", "x", "--", "true")
    assert shell("ls", "--json").json == []
    (info,) = shell("ls", "--all", "--json").json
    assert (info["held"], info["holder"], info["lease"]) == (False, None, None)
    assert shell("ls", "--all").out.splitlines()[1].split()[:3] == ["x", "free", "-"]


def test_names_cannot_write_to_the_terminal(shell):
    shell("acquire", "bad\x1b[2Jname", "--label", "\x1b[31mred")
    out = shell("ls").out
    assert "\x1b" not in out
    assert "bad\\x1b[2Jname" in out
    assert "\x1b" not in shell("show", "bad\x1b[2Jname").out


@pytest.mark.smoke
def test_show_tells_the_holder_and_the_line(shell):
    shell("acquire", "x", "--label", "ann")
    waiters = []
    for n in range(2):
        waiters.append(shell.start("run", "x", "--label", f"w{n}", "--", "true"))
        shell.in_line(count=n + 1)
    out = shell("show", "x").out
    assert f"held by {os.uname().nodename}:{os.getpid()} (ann) for" in out
    assert "key      fencelock:x\n" in out
    assert "waiting  2\n" in out
    assert "HAS" not in out  # a table of holders is for objects that several hold
    *_, first, second = out.splitlines()
    told = ["1", f"{os.uname().nodename}:{waiters[0].pid}", "(w0)", "run", "true"]
    assert first.split()[:-1] == told  # and for how long
    assert second.split()[0] == "2"
    told = shell("show", "x", "--json").json
    assert [each["pid"] for each in told["waiters"]] == [each.pid for each in waiters]
    assert [each["place"] for each in told["waiters"]] == [1, 2]
    assert all(each["since"] == round(each["since"], 3) for each in told["waiters"])


def test_show_of_a_free_lock_and_of_another_programs(shell, server):
    assert "state    free\n" in shell("show", "x").out
    assert shell("show", "x", "--json").json["held"] is False
    server.command("SET", "fencelock:x", "theirs", "PX", 50_000)
    assert "held by a program that is not fencelock" in shell("show", "x").out
    server.command("DEL", "fencelock:x")
    server.command("SADD", "fencelock:x", "y")
    assert shell("show", "x").status == 69


# --- break ----------------------------------------------------------------------------------------


def test_revoke_takes_the_lock_and_says_from_whom(shell, server):
    shell("acquire", "x", "--label", "ann")
    result = shell("break", "x", "--reason", "r", "--yes")  # as it was called first
    assert result.status == 0
    assert f"x was held by {os.uname().nodename}:{os.getpid()} (ann) for" in result.out
    assert server.command("EXISTS", "fencelock:x") == 0


def test_revoke_grants_to_the_next_in_line(shell):
    shell("acquire", "x")
    process = shell.start("run", "x", "-q", "--", "true")
    shell.in_line()
    told = shell("revoke", "x", "--reason", "r", "--yes", "--json").json
    assert told["revoked"] is True
    assert told["was"]["holder"]["pid"] == os.getpid()
    assert process.end() == 0


def test_revoke_of_a_free_lock_says_so(shell):
    result = shell("revoke", "x", "--reason", "r", "--yes")
    assert (result.status, result.err) == (76, "fencelock: x was not held\n")
    assert shell("revoke", "x", "--reason", "r", "--yes", "--json").json["revoked"] is False


@pytest.mark.parametrize(
    "words", [["--yes"], ["--reason", "r"], ["--reason", " ", "--yes"], ["--reason", "", "--yes"]]
)
def test_revoke_needs_a_reason_and_a_yes(shell, server, words):
    shell("acquire", "x")
    assert shell("revoke", "x", *words).status == 64
    assert server.command("EXISTS", "fencelock:x") == 1


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 75), ("", 75)])
def test_revoke_asks_on_a_terminal(shell, server, answer, status):
    shell("acquire", "x")
    master, terminal = os.openpty()
    os.write(master, f"{answer}\n".encode())
    process = shell.start("revoke", "x", "--reason", "r", stdin=terminal)
    assert process.end() == status
    assert "Take it away? [y/N]" in process.err
    assert server.command("EXISTS", "fencelock:x") == (1 if status else 0)
    os.close(terminal)
    os.close(master)


# --- the embedded server --------------------------------------------------------------------------


def test_server_starts_shows_and_stops(shell, embedded):
    url = shell("server", "url", env=embedded).out.strip()
    assert url.startswith(f"unix://{embedded['FENCELOCK_DIR']}")
    before = shell("server", "status", env=embedded)
    assert before.status == 69
    assert before.out.startswith("state      stopped\n")
    assert shell("server", "start", env=embedded).out.strip() == url
    status = shell("server", "status", "--json", env=embedded)
    assert status.status == 0
    assert (status.json["running"], status.json["url"]) == (True, url)
    assert "state      running\n" in shell("server", "status", env=embedded).out
    assert shell("acquire", "x", env=embedded).status == 0
    doctor = shell("doctor", "--json", env=embedded)
    assert doctor.status == 0
    assert {each["level"] for each in doctor.json["checks"]} == {"OK"}, doctor.out
    assert shell("server", "stop", "--json", env=embedded).json == {"stopped": True}
    assert "no embedded server was running" in shell("server", "stop", env=embedded).err
    assert shell("server", "start", "--json", env=embedded).json == {"url": url}
    assert shell("server", "url", "--json", env=embedded).json == {"url": url}
    shell("server", "stop", env=embedded)


def test_doctor_starts_no_server(shell, embedded):
    result = shell("doctor", env=embedded)
    assert result.status == 0
    assert "not running; the first lock starts" in result.out
    assert shell("server", "status", "--json", env=embedded).json["running"] is False


def test_where_none_may_be_started_69_and_doctor_say_so(shell, embedded):
    env = embedded | {"FENCELOCK_EMBEDDED": "0"}
    assert shell("server", "start", env=env).status == 69
    doctor = shell("doctor", "--json", env=env)
    (check,) = [each for each in doctor.json["checks"] if each["level"] != "OK"]
    assert (doctor.status, check["what"], check["level"]) == (1, "embedded", "FAIL")


def test_settings_that_cannot_be_give_64(shell, embedded):
    for bad in ({"FENCELOCK_DIR": "relative"}, {"FENCELOCK_EMBEDDED": "maybe"}):
        assert shell("ls", env=embedded | bad).status == 64
    for words in (["server"], ["server", "explode"]):
        assert shell(*words, env=embedded).status == 64


# --- help, output, durations ----------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "example:\n  " in out
    assert f"fencelock {command}" in out.split("example:")[1]


def test_the_help_lists_every_command(shell):
    out = shell("--help").out
    assert all(f"\n  {name} " in out for name in COMMANDS)
    assert shell("help", "ls").out == shell("ls", "--help").out
    assert shell("--version").out.startswith("fencelock ")


@pytest.mark.parametrize(
    "words", [["ls", "a", "b"], ["show"], ["wait"], ["acquire"], ["doctor", "x"], ["revoke", "x"]]
)
def test_usage_errors_give_64_and_name_the_help(words, capsys):
    assert main(words) == 64
    assert capsys.readouterr().err.splitlines()[1] == f"hint: fencelock {words[0]} --help"


def test_a_reader_that_goes_away_is_no_error(shell):
    for n in range(3):
        shell("acquire", f"x{n}")
    process = shell.start("ls", "--json")
    process.popen.stdout.close()
    process.popen.stdout = None
    assert process.end() == 128 + signal.SIGPIPE
    assert process.err == ""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5s", 1.5), ("500ms", 0.5), ("2m", 120), ("1h", 3600), ("1d", 86400), ("0", 0)],
)
def test_durations(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "-1", "1w", "1 h", "1e3", "inf", "nan", "1h30m", "4000d"]
)
def test_what_is_no_duration(text):
    with pytest.raises(Exception, match=r"duration|ten years"):
        duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.2s"),
        (27.9, "27s"),
        (192, "3m12s"),
        (7500, "2h05m"),
        (356400, "4d03h"),
        (-1, "0.0s"),
    ],
)
def test_spans_for_people(seconds, text):
    assert human(seconds) == text


def test_visible_text():
    assert visible("plain ü") == "plain ü"
    assert visible("a\nb\x1b") == "a\\x0ab\\x1b"
