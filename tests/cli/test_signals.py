"""Signals: to the command while it runs, an end of the wait before; and fencelock's own end."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import alive, ended, eventually, gone, listens, quoted, read_until

FORWARDED = ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"]


@pytest.mark.parametrize("name", FORWARDED)
def test_a_signal_reaches_the_command_which_decides(shell, name):
    words, report = shell.reporter(handles=f"!{name}", exit_with=11)
    process = shell.start("run", "x", "--", *words)
    report.up()
    process.send(getattr(signal, f"SIG{name}"))
    assert process.end() == 11
    assert f"SIG{name}" in report.words()


def test_a_command_may_survive_a_signal(shell):
    words, report = shell.reporter(handles="INT !TERM", exit_with=2)
    process = shell.start("run", "x", "--", *words)
    report.up()
    process.send(signal.SIGINT)
    report.heard("SIGINT")
    assert process.popen.poll() is None
    process.send(signal.SIGTERM)
    assert process.end() == 2


def test_a_signal_reaches_the_whole_group_of_the_command(shell):
    words, report = shell.reporter(handles="!TERM")
    process = shell.start(
        "run", "x", "--", "sh", "-c", f"trap : TERM; {quoted(words)} & wait; wait"
    )
    report.up()
    process.send(signal.SIGTERM)
    report.heard("bye")
    process.end()


def test_tstp_stops_the_command_and_cont_continues_it(shell):
    words, report = shell.reporter(handles="!TERM")
    process = shell.start("run", "x", "--", *words)
    pid = report.up()
    process.send(signal.SIGTSTP)
    eventually(lambda: state(pid) == "T", "the stop")
    assert shell("show", "x", "--json").json["held"]
    process.send(signal.SIGCONT)
    eventually(lambda: state(pid) != "T", "going on")
    process.send(signal.SIGTERM)
    assert process.end() == 0


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_a_signal_ends_a_wait_and_leaves_no_place_in_line(shell, name):
    shell("acquire", "x")
    process = shell.start("run", "x", "--", "true")
    shell.in_line()
    number = getattr(signal, f"SIG{name}")
    process.send(number)
    assert process.end() == 128 + number
    assert shell("show", "x", "--json").json["waiting"] == 0
    assert "Traceback" not in process.err


# --- the end of fencelock itself ------------------------------------------------------------------


def guard_of(process):
    """Return the pid of the guard: fencelock's only child."""
    return children(process.pid)[0]


def children(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def family(shell):
    """Start a command with a child in its group and one in another, as timeout(1) makes it."""
    reporters = [shell.reporter(handles="TERM INT HUP") for _ in range(3)]
    each = [quoted(words) for words, _ in reporters]
    code = f"trap '' TERM; {each[0]} & timeout 60 {each[1]} & {each[2]}"
    process = shell.start("run", "x", "--", "sh", "-c", code)
    pids = [report.up() for _, report in reporters]
    yield process, pids
    for pid in pids:
        gone(pid)


def test_when_fencelock_is_killed_everything_it_started_dies(family):
    process, pids = family
    guard = guard_of(process)
    process.send(signal.SIGKILL)
    for pid in (*pids, guard):
        gone(pid)


def test_what_kills_fencelock_may_end_the_command_first_and_then_the_rest_dies_too(shell):
    words, report = shell.reporter(handles="TERM HUP")
    process = shell.start(
        "run", "x", "--", "sh", "-c", f"{quoted(words)} & echo up; read line", stdin=subprocess.PIPE
    )
    pid = report.up()
    (command,) = children(guard_of(process))
    process.send(signal.SIGSTOP)
    process.close_stdin()
    gone(command)
    process.send(signal.SIGKILL)
    gone(pid)


def test_when_guard_and_fencelock_are_killed_the_command_dies(shell):
    words, report = shell.reporter(handles="TERM")
    process = shell.start("run", "x", "--", *words)
    pid = report.up()
    for each in (guard_of(process), process.pid):
        os.kill(each, signal.SIGSTOP)
    for each in (guard_of(process), process.pid):
        os.kill(each, signal.SIGKILL)
    gone(pid)


def test_when_the_guard_is_killed_all_is_stopped_and_the_lock_is_free(shell, family):
    process, pids = family
    os.kill(guard_of(process), signal.SIGKILL)
    assert process.end() == 70
    assert "guard" in process.err
    for pid in pids:
        gone(pid)
    assert not shell("show", "x", "--json").json["held"]


def test_a_killed_waiter_leaves_no_process_behind(shell):
    shell("acquire", "x")
    process = shell.start("run", "x", "--", "true")
    shell.in_line()
    guard = guard_of(process)
    process.send(signal.SIGKILL)
    gone(guard)


def test_what_the_command_left_running_may_go_on(shell):
    words, report = shell.reporter(handles="!TERM")
    result = shell(
        "run",
        "x",
        "--",
        sys.executable,
        "-c",
        "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL,"
        " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)",
        *words,
    )
    assert result.status == 0
    assert alive(report.up())


# --- on a terminal --------------------------------------------------------------------------------


def test_ctrl_c_reaches_the_command_once_and_it_decides(shell, terminal):
    words, report = shell.reporter(handles="INT !TERM", exit_with=5)
    pid, master = terminal("run", "x", "--", *words)
    report.up()
    os.kill(pid, signal.SIGSTOP)  # so that a second one would come apart from the first
    os.write(master, b"\x03")
    report.heard("SIGINT")
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGTERM)
    assert ended(pid) == 5
    assert report.words().count("SIGINT") == 1


def test_the_command_reads_the_terminal(terminal):
    pid, master = terminal(
        "run", "x", "--", "sh", "-c", "read line </dev/tty; echo got-$line; exit 6"
    )
    os.write(master, b"hello\n")
    read_until(master, b"got-hello")
    assert ended(pid) == 6


def test_on_a_terminal_too_all_dies_when_fencelock_is_killed(shell, terminal):
    reporters = [shell.reporter(handles="TERM HUP") for _ in range(2)]
    each = [quoted(words) for words, _ in reporters]
    pid, _ = terminal("run", "x", "--", "sh", "-c", f"{each[0]} & {each[1]}")
    pids = [report.up() for _, report in reporters]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for each in pids:
        gone(each)


def test_other_programs_of_the_same_job_are_left_alone(server, shell):
    words, report = shell.reporter(handles="TERM HUP")
    neighbour, its_report = shell.reporter(handles="HUP")
    code = (
        f"{sys.executable} -m fencelock run x --grace 0.3s -- {quoted(words)} & {quoted(neighbour)}"
    )
    pid, master = pty.fork()
    if pid == 0:
        os.execvpe("sh", ["sh", "-c", code], shell.env)
    command, other = report.up(), its_report.up()
    listens(server)
    assert shell("revoke", "x", "--reason", "r", "--yes").status == 0
    report.heard("SIGTERM")
    gone(command)
    assert alive(other)
    os.kill(other, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(master)


# --- waiting is told ------------------------------------------------------------------------------


def test_on_a_terminal_one_line_tells_the_holder_and_the_place(shell, terminal):
    shell("acquire", "x", "--label", "ann")
    first = shell.start("run", "x", "--", "true")
    shell.in_line()
    pid, master = terminal("run", "x", "--", "true")
    seen = read_until(master, b"you are #2 of 2")
    line = seen.rpartition(b"\r\x1b[K")[2].decode()
    assert line.startswith("waiting for x: held by ")
    assert f":{os.getpid()} (ann) for " in line
    assert ", lease 2" in line
    seen = read_until(master, b"you are #2 of 2", b"")
    assert b"\n" not in seen
    assert shell("revoke", "x", "--reason", "go on", "--yes").status == 0
    assert ended(pid) == 0
    assert read_until(master, b"\r\x1b[K").endswith(b"\r\x1b[K")
    assert first.end() == 0


def test_elsewhere_a_line_at_the_start_tells_it(shell):
    shell("acquire", "x")
    process = shell.start("run", "x", "-w", "2s", "--", "true")
    assert process.end() == 75
    lines = process.err.splitlines()
    assert len([line for line in lines if "waiting for x: held by" in line]) == 1
    assert "you are #1 of 1" in lines[0]


def test_quiet_and_short_waits_tell_nothing(shell):
    shell("acquire", "x")
    assert shell("run", "x", "-q", "-w", "600ms", "--", "true").err == ""
    assert "waiting" not in shell("run", "x", "-w", "100ms", "--", "true").err
