"""The run in virtual time: nothing breaks, the same again, and a clock that is too fast is seen."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOURS = "0.5"


def run(*words: str) -> tuple[int, dict]:
    command = [sys.executable, "-m", "verification.virtual", "--hours", HOURS, *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=80)
    assert not ended.stderr, ended.stderr.decode()
    return ended.returncode, json.loads(ended.stdout)


@pytest.mark.slow
def test_hours_pass_without_a_violation_and_the_same_again():
    first, again = run("--seed", "1"), run("--seed", "1")
    assert first[0] == 0
    assert first[1]["violations"] == []
    assert first[1]["asked"]["granted"] > 500
    assert len(first[1]["faults"]) == 8
    assert first[1]["trace"] == again[1]["trace"]


@pytest.mark.slow
def test_another_seed_is_another_run_and_a_clock_that_is_too_fast_is_found():
    status, summary = run("--seed", "2", "--drift", "0.3")
    assert status == 1
    assert any("granted beside" in each for each in summary["violations"])
