"""``fencelock once``: of many hosts one runs the command; what ran well is not run again."""

import os
import signal

import pytest

from tests.cli.shell import alive, gone

HOUR = ("--within", "1h")
SH = ("--", "sh", "-c")


def ran(folder):
    return sorted(path.name for path in folder.glob("ran-*"))


@pytest.mark.smoke
def test_what_ran_well_is_not_run_again(shell, tmp_path):
    first = shell("once", "x", *HOUR, "--json", "--", "touch", tmp_path / "ran-1")
    second = shell("once", "x", *HOUR, "--json", "--", "touch", tmp_path / "ran-2")
    assert (first.status, first.report["outcome"]) == (0, "ran")
    assert (second.status, second.report["outcome"]) == (0, "done")
    assert ran(tmp_path) == ["ran-1"]
    quiet = shell("once", "x", *HOUR, "--", "false")
    assert (quiet.status, quiet.out, quiet.err) == (0, "", "")
    assert "was done before, by" in shell("once", "x", "-v", *HOUR, "--", "false").err


def test_show_tells_what_was_done_and_where(shell):
    assert shell("show", "x", "--json").json["done"] is None
    first = shell("once", "x", *HOUR, "--json", "--", "true")
    done = shell("show", "x", "--json").json["done"]
    assert all(done[each] == round(done[each], 3) for each in ("started", "ended"))
    assert done["fence"] == first.report["fence"]
    assert done["started"] <= done["ended"]
    text = shell("show", "x").out
    assert f"UTC by {done['by']}, fence {done['fence']}" in text


@pytest.mark.parametrize(
    ("script", "status", "how"), [("exit 3", 3, "exit 3"), ("kill -9 $$", 137, "signal 9")]
)
def test_what_failed_is_run_by_the_next(shell, tmp_path, script, status, how):
    result = shell("once", "x", *HOUR, "--json", *SH, script)
    assert (result.status, result.report["outcome"]) == (status, "failed")
    last = shell("show", "x", "--json").json["last"]
    assert last["how"] == how
    assert last["by"].startswith(f"{os.uname().nodename}:")
    assert shell("once", "x", *HOUR, "--", "touch", tmp_path / "ran-1").status == 0
    assert ran(tmp_path) == ["ran-1"]


def test_what_cannot_be_run_is_not_done(shell, tmp_path):
    result = shell("once", "x", *HOUR, "--json", "--", tmp_path / "missing")
    assert (result.status, result.report["outcome"]) == (127, "not run")
    assert shell("once", "x", *HOUR, "--json", "--", "true").report["outcome"] == "ran"


def test_who_comes_during_the_run_skips_or_says_so(shell):
    words, report = shell.reporter(handles="!TERM")
    first = shell.start("once", "x", *HOUR, "--", *words)
    report.up()
    skipped = shell("once", "x", *HOUR, "--json", "--", "false")
    assert (skipped.status, skipped.report["outcome"]) == (0, "busy")
    told = shell("once", "x", *HOUR, "-E", "9", "--", "false")
    assert told.status == 9
    assert "'x' is being run elsewhere" in told.err
    late = shell("once", "x", *HOUR, "--wait", "300ms", "--", "false")
    assert late.status == 75
    assert "was not done within 0.3s" in late.err
    first.send(signal.SIGTERM)
    assert first.end() == 0


def test_who_waits_goes_on_when_it_is_done(shell):
    words, report = shell.reporter(handles="!TERM")
    first = shell.start("once", "x", *HOUR, "--", *words)
    report.up()
    waits = shell.start("once", "x", *HOUR, "--wait", "20s", "--json", "--", "false")
    shell.in_line()
    first.send(signal.SIGTERM)
    assert first.end() == 0
    assert waits.end() == 0
    assert '"outcome": "done"' in waits.err


def test_who_waits_runs_it_when_it_fails(shell, tmp_path):
    words, report = shell.reporter(handles="!TERM", exit_with=4)
    first = shell.start("once", "x", *HOUR, "--", *words)
    report.up()
    waits = shell.start("once", "x", *HOUR, "-w", "20s", "--", "touch", tmp_path / "ran-2")
    shell.in_line()
    first.send(signal.SIGTERM)
    assert first.end() == 4
    assert waits.end() == 0
    assert ran(tmp_path) == ["ran-2"]


def test_when_the_runner_is_killed_the_next_runs_it(shell, tmp_path):
    words, report = shell.reporter()
    first = shell.start("once", "x", "--ttl", "1s", *HOUR, "--", *words)
    pid = report.up()
    waits = shell.start("once", "x", *HOUR, "-w", "20s", "--", "touch", tmp_path / "ran-2")
    shell.in_line()
    first.send(signal.SIGKILL)
    gone(pid)
    assert waits.end() == 0
    assert ran(tmp_path) == ["ran-2"]


def test_when_the_runner_stands_still_its_command_ends_before_the_next_runs(shell, tmp_path):
    words, report = shell.reporter()
    first = shell.start("once", "x", "--ttl", "1s", *HOUR, "--", *words)
    pid = report.up()
    waits = shell.start(
        "once", "x", *HOUR, "-w", "20s", *SH, f"kill -0 {pid} || touch {tmp_path}/ran-2"
    )
    shell.in_line()
    first.send(signal.SIGSTOP)
    assert waits.end() == 0
    assert not alive(pid)
    assert ran(tmp_path) == ["ran-2"]
    first.send(signal.SIGCONT)
    assert first.end() == 76
