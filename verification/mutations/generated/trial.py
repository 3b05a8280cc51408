"""Put one mutant in a copy of the package, and run the tests that can kill it."""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from verification.mutations.generated.mutants import Mutant
from verification.mutations.generated.selection import PACKAGE, ROOT, Recordings

TEST_SECONDS = 60  # a mutant may hang: the test that waits for it has failed then
STARTING_SECONDS = 90
SLOWNESS = 5  # a busy machine may take as many times as long as the recording did
PASSED, FAILED, INTERRUPTED, NONE_CHOSEN = 0, 1, 2, 5
SOWN_THERE = "the seed's place is gone"  # of tests/flows/sowing.py
FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:\[.*\])?)(?: - |$)", re.MULTILINE)


def killer(mutant: Mutant, recordings: Recordings, part: str, budgets: Sequence[float]) -> str:
    """Return the test of a part that kills a mutant, or nothing when all that were tried pass.

    Each budget, in seconds, is for the next tests in order. A test that fails must fail twice, and
    pass without the mutant: one that fails for another reason does not kill.
    """
    tests = recordings.of(mutant, part)
    with tempfile.TemporaryDirectory(prefix="fencelock-mutant-") as name:
        folder = Path(name)
        put(mutant, folder)
        for budget in budgets:
            chosen, tests = _within(budget, tests, recordings)
            found = _first_failure(folder, chosen, recordings, f"--part={part}")
            if found:
                return found
    return ""


def put(mutant: Mutant, folder: Path) -> None:
    """Copy the package with the mutant in it."""
    copy = folder / "fencelock"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / mutant.file).write_text(mutant.text)


def _within(budget: float, tests: list[str], recordings: Recordings) -> tuple[list[str], list[str]]:
    """Split tests into those that a budget allows, and the rest."""
    spent = 0.0
    for number, test in enumerate(tests):
        if spent >= budget:
            return tests[:number], tests[number:]
        spent += recordings.cost(test)
    return tests, []


@functools.cache
def sound(*tests: str, estimate: float = 1.0, options: tuple[str, ...] = ()) -> bool:
    """Return True if tests pass in time without a mutant, on this machine and now."""
    with tempfile.TemporaryDirectory(prefix="fencelock-sound-") as name:
        shutil.copytree(PACKAGE, Path(name) / "fencelock")
        return run(Path(name), tests, estimate, *options)[0] in {PASSED, NONE_CHOSEN}


def _first_failure(folder: Path, tests: list[str], recordings: Recordings, part: str) -> str:
    while tests:
        estimate = sum(map(recordings.cost, tests))
        status, output = run(folder, tests, estimate, part)
        if status in {PASSED, NONE_CHOSEN}:
            return ""
        if status == INTERRUPTED:
            ends = sound(*tests, estimate=estimate, options=(part,))
            return "no end" if ends else ""
        failed = FAILURE.search(output)
        if status == FAILED and failed is not None:
            again = run(folder, [failed[1]], recordings.cost(failed[1]))[0]
            if again != PASSED and sound(failed[1]):
                return failed[1]
            tests = tests[tests.index(failed[1]) + 1 :] if failed[1] in tests else []
        elif failed is not None and SOWN_THERE in output:  # the file sows a defect where this is
            tests = [test for test in tests if not test.startswith(failed[1])]
        elif sound(*tests, options=("--collect-only",)):
            return f"pytest ends with {status}"
        else:
            raise RuntimeError(f"a recorded test is not there any more: {output}")
    return ""


def run(folder: Path, tests: Sequence[str], estimate: float, *more: str) -> tuple[int, str]:
    """Run tests on the copy until one fails; return pytest's status and what it printed."""
    arguments = folder / "arguments"
    arguments.write_text("\n".join(tests))
    options = ["-q", "-x", "--kinds=1", "-rfE", "--tb=no", "-o", f"timeout={TEST_SECONDS}", *more]
    command = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", f"@{arguments}"]
    paths = os.pathsep.join([str(folder), str(ROOT)])
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=STARTING_SECONDS + SLOWNESS * estimate)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return INTERRUPTED, "no end"
    return child.returncode, output
