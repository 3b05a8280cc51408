"""A lease that is lost: the command is gone before anybody else can have the lock."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from fencelock.cli.run.supervisor_client import NEVER, StopSchedule
from tests.cli.shell import alive, eventually, gone, instant, listens, quoted
from tests.waiting import machine_seconds

# What one look at a process may lag behind, on a machine that is busy with other tests.
SLACK = 0.05


def deadline_after_renewal(server, ttl):
    """Wait for a renewal and return the instant until which its sender may count on it.

    The next renewal is a third of the ttl away: what the test does now comes before it.
    """

    def ends():
        asked_at = instant()
        left = server.command("PTTL", "fencelock:x") / 1000
        return left > ttl * 0.97 and asked_at + left

    # What drift takes off, see validity(); the server counted from a later instant than the sender.
    return eventually(ends, "a renewal") - (ttl * 0.01 + 0.002)


@pytest.mark.parametrize("handles", ["TERM", pytest.param("!TERM", marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", ["pause", "kill"])
def test_a_silent_server_stops_the_command_before_the_lease_ends(
    own_server, own_shell, how, handles
):
    words, report = own_shell.reporter(handles=handles)
    options = ("--ttl", "2s", "--grace", "0.5s", "--json")
    process = own_shell.start("run", "x", *options, "--", *words)
    pid = report.up()
    deadline = deadline_after_renewal(own_server, 2.0)
    getattr(own_server, how)()
    gone(pid)
    assert process.end() == 76
    assert process.err.splitlines()[-1].count('"outcome": "lost"')
    term_at, last = report.at("SIGTERM"), report.last_sign()
    assert last < deadline
    if handles == "TERM":
        assert 0.2 < last - term_at < 0.5 + 5 * SLACK
    if how == "pause":
        own_server.resume()
        eventually(lambda: own_server.command("EXISTS", "fencelock:x") == 0, "a free lock")


def test_a_stopped_fencelock_does_not_keep_the_command_from_being_stopped(server, shell):
    words, report = shell.reporter(handles="TERM")
    process = shell.start("run", "x", "--ttl", "1s", "--", *words)
    pid = report.up()
    deadline = deadline_after_renewal(server, 1.0)
    process.send(signal.SIGSTOP)
    gone(pid)
    assert report.last_sign() < deadline
    process.send(signal.SIGCONT)
    assert process.end() == 76


def test_the_whole_family_is_stopped(server, shell):
    reporters = [shell.reporter(handles="TERM") for _ in range(3)]
    one, two, three = (quoted(words) for words, _ in reporters)
    code = f"{one} & timeout 60 {two} & {three}"
    process = shell.start("run", "x", "--ttl", "1s", "--", "sh", "-c", code)
    pids = [report.up() for _, report in reporters]
    deadline = deadline_after_renewal(server, 1.0)
    process.send(signal.SIGSTOP)
    for pid, (_, report) in zip(pids, reporters, strict=True):
        gone(pid)
        assert report.last_sign() < deadline
        assert "SIGTERM" in report.words()
    process.send(signal.SIGCONT)
    assert process.end() == 76


def test_others_that_ignore_term_are_killed_after_a_command_that_obeys(server, shell):
    inner, report = shell.reporter(handles="TERM")
    code = f"trap 'exit 0' TERM; {quoted(inner)} & wait; wait"
    process = shell.start("run", "x", "--grace", "0.3s", "--", "sh", "-c", code)
    pid = report.up()
    listens(server)
    shell("revoke", "x", "--reason", "r", "--yes")
    assert process.end() == 76
    assert not alive(pid)


# --- revoked --------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_revoked_lease_stops_the_command_at_once_and_tells_why(server, shell):
    words, report = shell.reporter(handles="!TERM")
    process = shell.start("run", "x", "--", *words)
    report.up()
    listens(server)
    began = instant()
    result = shell("revoke", "x", "--reason", "host is going down", "--yes")
    assert result.status == 0
    report.heard("SIGTERM")
    assert report.at("SIGTERM") - began < 2 + machine_seconds()
    assert process.end() == 76
    assert "revoked: host is going down" in process.err


@pytest.mark.parametrize("how", ["term", "kill"])
def test_a_command_that_does_not_obey_is_killed(server, shell, how):
    words, report = shell.reporter(handles="TERM")
    options = ("--grace", "0.4s", "--on-lost", how, "--ttl", "30s" if how == "term" else "3s")
    process = shell.start("run", "x", *options, "--", *words)
    report.up()
    listens(server)
    if how == "kill":
        server.command("DEL", "fencelock:x")
        assert process.end() == 76
        assert "lost (expired" in process.err
        assert "SIGTERM" not in report.words()
    else:
        shell("revoke", "x", "--reason", "r", "--yes")
        assert process.end() == 76
        assert 0.3 < report.last_sign() - report.at("SIGTERM") < 0.4 + machine_seconds()


def test_on_lost_warn_tells_and_the_exit_status_stays_the_commands(server, shell):
    process = shell.start(
        *("run", "x", "--on-lost", "warn", "--", "sh", "-c"),
        "echo up; read line; exit 9",
        stdin=subprocess.PIPE,
    )
    assert process.popen.stdout.readline() == "up\n"
    listens(server)
    shell("revoke", "x", "--reason", "r", "--yes")
    line = process.popen.stderr.readline()
    assert "is lost: revoked: r [" in line
    assert line.endswith("; sh goes on without it\n")
    process.close_stdin()
    assert process.end() == 9


@pytest.mark.parametrize("kept", [(), ("--at-least", "1h")])
def test_a_command_that_had_ended_is_told_of_a_loss_that_its_release_finds(server, shell, kept):
    words = "sh", "-c", "echo up; read line; exit 3"
    process = shell.start("run", "x", *kept, "--", *words, stdin=subprocess.PIPE)
    assert process.popen.stdout.readline() == "up\n"
    server.command("DEL", "fencelock:x")
    process.close_stdin()
    assert process.end() == 3
    assert "sh had ended by itself" in process.err


def test_a_loss_is_not_the_exit_status_of_a_command_that_had_ended(own_server, own_shell):
    """The command ended by itself; only the release finds no server. The lease ends by its ttl."""
    process = own_shell.start(
        "run", "x", "--ttl", "1s", "--", "sh", "-c", "echo up; read line; exit 3",
        stdin=subprocess.PIPE,
    )  # fmt: skip
    assert process.popen.stdout.readline() == "up\n"
    own_server.kill()
    process.close_stdin()
    assert process.end() == 3
    assert "could not be given back" in process.err


# --- when -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ttl", [0.1, 0.5, 2.0, 30.0, 86400.0])
@pytest.mark.parametrize("grace", [0.0, 0.01, 1.0, 5.0])
def test_term_comes_before_kill_and_kill_before_the_deadline(ttl, grace):
    grace = min(grace, ttl / 3)
    term_at, kill_at = StopSchedule(grace, gentle=True).instants(100 + ttl, 100.0)
    assert 100 + ttl / 2 < term_at <= 100 + ttl
    assert 100 + ttl / 2 < kill_at < 100 + ttl
    assert kill_at <= 100 + ttl - min(0.1, ttl / 6)
    assert StopSchedule(grace, gentle=False).instants(100 + ttl, 100.0) == (NEVER, kill_at)


def test_a_lease_that_was_handed_over_short_is_not_ended_by_a_long_grace():
    term_at, _ = StopSchedule(5.0, gentle=True).instants(102.0, 100.0)
    assert term_at > 101.0


def test_the_grace_counts_back_from_the_end_that_max_hold_sets():
    schedule = StopSchedule(5.0, gentle=True, end=160.0)
    assert schedule.instants(159.9, 155.0)[0] == 155.0
    assert schedule.instants(130.0, 100.0)[0] == 125.0


def parent(pid):
    """Return the parent of a process: the guard of a command."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.slow
@pytest.mark.parametrize("handles", ["", "TERM"])
def test_a_stopped_guard_does_not_keep_its_command_beside_the_next_holder(
    own_server, own_shell, handles
):
    words, report = own_shell.reporter(handles=handles)
    process = own_shell.start("run", "x", "--ttl", "2s", "--grace", "0.5s", "--json", "--", *words)
    pid = report.up()
    guard = parent(pid)
    assert guard != process.pid
    os.kill(guard, signal.SIGSTOP)
    deadline = deadline_after_renewal(own_server, 2.0)
    own_server.pause()
    gone(pid)
    assert process.end() == 76
    assert report.last_sign() < deadline
    gone(guard)
    own_server.resume()
    eventually(lambda: own_server.command("EXISTS", "fencelock:x") == 0, "a free lock")


def test_a_lost_lease_does_not_make_run_wait_for_a_frozen_server(own_server, own_shell):
    words, report = own_shell.reporter()
    process = own_shell.start("run", "x", "--ttl", "1s", "--grace", "0s", "--", *words)
    report.up()
    listens(own_server)
    own_server.pause()
    gone(report.pid)
    stopped_at = instant()
    assert process.end() == 76
    assert instant() - stopped_at < 0.9  # a release alone would be waited for that long
    own_server.resume()
