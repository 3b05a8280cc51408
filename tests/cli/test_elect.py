"""``fencelock elect``: the command runs on exactly one host, and on another when that one goes."""

import os
import re
import signal

import pytest

from tests.cli.shell import alive, ended, eventually, gone, read_until

SH = ("--", "sh", "-c")
# Says who it is, and lives until its file is gone.
ONE = 'echo "$FENCELOCK_CANDIDATE" >> {log}; while test -e {flag}; do sleep 0.01; done'


@pytest.fixture
def flag(tmp_path):
    path = tmp_path / "flag"
    path.touch()
    yield path
    path.unlink(missing_ok=True)


def candidate(shell, tmp_path, flag, name, *options):
    """Start one host; what leads writes its name to the log."""
    script = ONE.format(log=tmp_path / "log", flag=flag)
    return shell.start("elect", "x", "--candidate", name, "-q", *options, *SH, script)


def leaders(tmp_path):
    log_of = tmp_path / "log"
    return [line.split()[0] for line in log_of.read_text().splitlines()] if log_of.exists() else []


def led_by(tmp_path, *names):
    eventually(lambda: leaders(tmp_path) == list(names), f"leaders: {names}")


def test_the_command_runs_on_one_host_and_the_next_when_it_ends(shell, tmp_path, flag):
    one = candidate(shell, tmp_path, flag, "one")
    led_by(tmp_path, "one")
    two = candidate(shell, tmp_path, flag, "two")
    shell.in_line()
    seen = shell("show", "x").out
    assert re.search(r"held by \S+ \(one, \S+\) for", seen)
    assert re.search(r"1  \S+ \(two, \S+\)", seen)
    assert " one, " in shell("ls").out
    one.send(signal.SIGTERM)
    assert one.end() == 128 + signal.SIGTERM
    led_by(tmp_path, "one", "two")
    flag.unlink()
    assert two.end() == 0
    assert not shell("show", "x", "--json").json["held"]


@pytest.mark.parametrize("status", [0, 3])
def test_the_exit_status_is_the_commands_own_when_it_ends_by_itself(shell, status):
    assert shell("elect", "x", *SH, f"exit {status}").status == status
    assert not shell("show", "x", "--json").json["held"]


def test_a_command_that_cannot_be_run_ends_it(shell, tmp_path):
    result = shell("elect", "x", "--restart", "0", "--", tmp_path / "missing")
    assert result.status == 127


def test_restart_stands_again_when_the_command_ends(shell, tmp_path):
    runs = tmp_path / "runs"
    process = shell.start("elect", "x", "--restart", "0", *SH, f"echo $PPID >> {runs}")
    eventually(lambda: runs.exists() and runs.read_text().count("\n") >= 3, "three runs")
    process.send(signal.SIGTERM)
    # The command had ended by itself already, or got it, or there was none yet.
    assert process.end() in {0, 128 + signal.SIGTERM, -signal.SIGTERM}


def test_a_leader_that_is_revoked_stops_its_command_and_stands_again(shell, tmp_path):
    words, report = shell.reporter(handles="!TERM")
    process = shell.start("elect", "x", "-q", "--restart", "1h", "--", *words)  # no pause for this
    pid = report.up()
    assert shell("revoke", "x", "--yes", "--reason", "test").status == 0
    gone(pid)
    assert "SIGTERM" in report.words()
    eventually(lambda: report.words().count("bye") == 1 and ups(report) == 2, "the second term")
    process.send(signal.SIGTERM)
    assert process.end() == 0


def ups(report):
    return sum(word.startswith("up:") for word in report.words())


def test_standard_input_and_output_are_those_of_each_term(shell, tmp_path):
    script = f"echo term; test -e {tmp_path}/second || {{ touch {tmp_path}/second; sleep 60; }}"
    process = shell.start("elect", "x", "-q", "--grace", "0", *SH, script)
    eventually((tmp_path / "second").exists, "the first term")
    assert shell("revoke", "x", "--yes", "--reason", "test").status == 0
    assert process.end() == 0
    assert process.out == "term\nterm\n"


def test_when_the_leader_is_killed_its_command_dies_and_the_next_takes_over(shell, tmp_path, flag):
    words, report = shell.reporter()
    one = shell.start("elect", "x", "--ttl", "1s", "--", *words)
    pid = report.up()
    two = candidate(shell, tmp_path, flag, "two")
    shell.in_line()
    one.send(signal.SIGKILL)
    gone(pid)
    led_by(tmp_path, "two")
    flag.unlink()
    assert two.end() == 0


def test_a_leader_that_stands_still_has_no_command_when_the_next_leads(shell, tmp_path, flag):
    words, report = shell.reporter()
    one = shell.start("elect", "x", "--ttl", "1s", "-q", "--", *words)
    pid = report.up()
    script = f"kill -0 {pid} && echo both >> {tmp_path}/log; " + ONE
    script = script.format(log=tmp_path / "log", flag=flag)
    two = shell.start("elect", "x", "--candidate", "two", "-q", *SH, script)
    shell.in_line()
    one.send(signal.SIGSTOP)
    led_by(tmp_path, "two")
    assert not alive(pid)
    one.send(signal.SIGCONT)
    shell.in_line()  # it stands again
    flag.unlink()
    assert two.end() == 0
    eventually(lambda: ups(report) == 2, "it leads again")
    one.send(signal.SIGTERM)
    assert one.end() == 128 + signal.SIGTERM


def test_a_server_that_goes_away_ends_the_command_and_not_the_candidate(
    own_server, own_shell, tmp_path
):
    words, report = own_shell.reporter(handles="!TERM")
    process = own_shell.start("elect", "x", "--ttl", "1s", "--grace", "0.2s", "--", *words)
    pid = report.up()
    own_server.pause()
    gone(pid)
    own_server.resume()
    eventually(lambda: ups(report) == 2, "the second term")
    process.send(signal.SIGTERM)
    assert process.end() == 0
    assert "is lost" in process.err


def test_a_signal_ends_a_campaign(shell, tmp_path, flag):
    one = candidate(shell, tmp_path, flag, "one")
    led_by(tmp_path, "one")
    two = candidate(shell, tmp_path, flag, "two")
    shell.in_line()
    two.send(signal.SIGTERM)
    assert two.end() == 128 + signal.SIGTERM
    shell.in_line(count=0)
    flag.unlink()
    assert one.end() == 0


def test_ctrl_c_ends_it_though_it_would_restart(shell, terminal):
    words, report = shell.reporter(handles="!INT", exit_with=5)
    pid, master = terminal("elect", "x", "--restart", "0", "--", *words)
    report.up()
    os.write(master, b"\x03")
    assert ended(pid) == 5
    assert report.words().count("SIGINT") == 1


def test_the_command_of_each_term_reads_the_terminal(shell, terminal):
    script = "echo up; read line; echo got-$line; exit 6"
    pid, master = terminal("elect", "x", "--grace", "0", *SH, script)
    read_until(master, b"up")
    assert shell("revoke", "x", "--yes", "--reason", "test").status == 0
    read_until(master, b"up")
    os.write(master, b"hello\n")
    read_until(master, b"got-hello")
    assert ended(pid) == 6


def test_the_candidate_is_host_and_pid_unless_it_has_a_name(shell, tmp_path):
    out = shell("elect", "x", *SH, "echo $FENCELOCK_CANDIDATE").out
    assert out.rstrip().startswith(f"{os.uname().nodename[:100]}:")
