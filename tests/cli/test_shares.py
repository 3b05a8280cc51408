"""``run --slots``, ``--shared`` and ``--exclusive``, and how other commands tell of them."""

import os
import signal

import pytest

from tests.cli.shell import eventually

CAT = ("--", "cat")


@pytest.fixture
def runs(shell):
    """Start a run that lasts until its stdin is closed; return it once it holds."""

    def start(name, *options):
        process = shell.start("run", name, *options, *CAT, stdin=-1)
        eventually(lambda: process.pid in holders(shell, name), "it holds")
        return process

    return start


def holders(shell, name):
    return [each["pid"] for each in shell("show", name, "--json").json.get("holders", ())]


def test_slots_let_so_many_run_at_a_time(shell, runs):
    first, second = runs("x", "--slots", 2), runs("x", "--slots", 2)
    assert shell("run", "x", "--slots", 2, "-n", "--", "true").status == 75
    assert shell("wait", "x", "-n").status == 75
    first.close_stdin()
    assert first.end() == 0
    assert shell("run", "x", "--slots", 2, "-n", "--", "true").status == 0
    assert shell("wait", "x", "-n").status == 0
    second.close_stdin()
    assert second.end() == 0


def test_another_number_of_slots_is_refused(shell, runs):
    process = runs("x", "--slots", 2)
    result = shell("run", "x", "--slots", 3, "-n", "--", "true")
    assert result.status == 69
    assert "2, not 3" in result.err
    assert shell("run", "x", "-n", "--", "true").status == 69, "a lock has another kind of key"
    process.close_stdin()
    assert process.end() == 0


def test_shared_runs_beside_shared_and_exclusive_beside_nobody(shell, runs):
    reader = runs("x", "--shared")
    assert shell("run", "x", "--shared", "-n", "--", "true").status == 0
    assert shell("run", "x", "--exclusive", "-n", "--", "true").status == 75
    reader.close_stdin()
    assert reader.end() == 0
    writer = runs("x", "--exclusive")
    assert shell("run", "x", "--shared", "-n", "--", "true").status == 75
    writer.close_stdin()
    assert writer.end() == 0


def test_a_kept_slot_lasts_as_long_as_it_was_asked_to(shell):
    args = ("run", "x", "--slots", 1, "-n", "--at-least", "30s", "--", "true")
    assert shell(*args).status == 0
    assert shell(*args).status == 75


def test_ls_and_show_tell_who_holds_what(shell, runs):
    first, second = runs("x", "--slots", 3, "--label", "ann"), runs("y", "--shared")
    listed = [line.split() for line in shell("ls").out.splitlines()[1:]]
    assert listed[0][:4] == ["x", "1", "of", "3"]
    assert listed[1][:4] == ["y", "read", "by", "1"]
    told = {each["name"]: each for each in shell("ls", "--json").json}
    assert (told["x"]["kind"], told["x"]["limit"], told["x"]["taken"]) == ("semaphore", 3, 1)
    assert (told["y"]["kind"], told["y"]["writing"], told["y"]["holding"]) == ("rwlock", False, 1)
    shown = shell("show", "x").out
    assert "1 of 3 permits held by" in shown
    assert "(ann)" in shown
    waiters = [shell.start("run", "y", "--exclusive", "--", "true") for _ in range(2)]
    shell.in_line("y", 2)
    text = shell("show", "y").out
    assert "read by" in text
    assert [line.split()[-1] for line in text.splitlines()[-2:]] == ["write"] * 2
    assert " more\n" not in text  # all are listed
    for each in (first, second):
        each.close_stdin()
        assert each.end() == 0
    assert [each.end() for each in waiters] == [0, 0]
    assert shell("ls").out == ""


def test_revoke_takes_it_from_all_who_hold_and_lets_the_next_in(shell, runs):
    processes = [runs("x", "--slots", 2) for _ in range(2)]
    waiter = shell.start("run", "x", "--slots", 2, "--", "true")
    shell.in_line()
    result = shell("revoke", "x", "--yes", "--reason", "stuck")
    assert result.status == 0
    assert "2 of 2 permits held by" in result.out
    for each in processes:
        eventually(lambda each=each: each.popen.poll() is not None, "it ended")
        assert each.end() == 76
        assert "revoked: stuck" in each.err
    assert waiter.end() == 0


def test_revoke_takes_it_from_one_process_only(shell, runs):
    stuck, fine = runs("x", "--slots", 2), runs("x", "--slots", 2)
    words = ("revoke", "x", "--yes", "--reason", "stuck", "--only")
    assert "not held by such a process" in shell(*words, f"{os.uname().nodename}:1").err
    result = shell(*words, f"{os.uname().nodename}:{stuck.pid}")
    assert "1 of 2 permits held by" in result.out
    eventually(lambda: stuck.popen.poll() is not None, "it ended")
    assert stuck.end() == 76
    assert holders(shell, "x") == [fine.pid]
    assert shell(*words, "nonsense").status == 64
    fine.close_stdin()
    assert fine.end() == 0


def test_a_killed_run_gives_its_slot_back(shell, runs):
    process = runs("x", "--slots", 1, "--ttl", "1s")
    os.kill(process.pid, signal.SIGKILL)
    assert shell("run", "x", "--slots", 1, "-w", "5s", "--", "true").status == 0
