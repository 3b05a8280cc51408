"""Which tests can kill a mutant: those that run its line, or call its script."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from verification.mutations.generated.mutants import Mutant

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "src" / "fencelock"
BUILD = ROOT / "build" / "mutants"
RECORDINGS = BUILD / "recordings"

# What runs in child processes is not in the recordings: folder of the package → its tests.
CHILDREN = {"cli": "tests/cli", "__main__.py": "tests/cli", "embedded": "tests/embedded"}
GUESS_SECONDS = 2.0  # of a test that was not recorded
CHEAP_SECONDS = 0.05  # most tests of the simulated keyspace, and of pure functions


def record(tests: Iterable[str], processes: int) -> int:
    """Run tests and record what they run; return pytest's status."""
    plugin = "verification.mutations.generated.recorder"
    spread = (f"--numprocesses={processes}", "--dist=loadfile")
    command = [sys.executable, "-m", "pytest", "-q", "--kinds=1", "-p", plugin, *spread, *tests]
    paths = os.pathsep.join([str(PACKAGE.parent), str(ROOT)])
    environment = os.environ | {"FENCELOCK_RECORDING": str(RECORDINGS), "PYTHONPATH": paths}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


class Recordings:
    """What all recorded tests ran."""

    def __init__(self) -> None:
        self.lines: defaultdict[str, set[str]] = defaultdict(set)
        self.files: defaultdict[str, set[str]] = defaultdict(set)
        self.scripts: defaultdict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        for path in RECORDINGS.glob("*.json"):
            self._add(json.loads(path.read_text()))

    def _add(self, recording: dict[str, dict[str, list[str]]]) -> None:
        for name, tests in recording["lines"].items():
            self.lines[name].update(tests)
            self.files[name.partition(":")[0]].update(tests)
        for name, tests in recording["scripts"].items():
            self.scripts[name].update(tests)
        self.seconds.update(recording["seconds"])

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that can kill a mutant, in the order in which to try them."""
        file = mutant.file
        if file.endswith(".lua"):
            tests = {test for name in callers(Path(file).stem) for test in self.scripts[name]}
        else:
            tests = self.lines[f"{file}:{self._name(mutant)}"] or self.files[file]
        # One that sows a defect fails where the text is another: that says nothing of the mutant.
        return self._in_turn(test for test in tests if "sown" not in test) + list(children(file))

    def _name(self, mutant: Mutant) -> str:
        from verification.mutations.generated.recorder import names_of  # noqa: PLC0415 - coverage

        return names_of((PACKAGE / mutant.file).read_text())[mutant.line]

    def _in_turn(self, tests: Iterable[str]) -> list[str]:
        """Order tests: those that are cheap, then the others so that each file has its turn."""
        by_file: defaultdict[str, list[str]] = defaultdict(list)
        ordered = sorted(tests, key=self.cost)
        cheap = [test for test in ordered if self.cost(test) < CHEAP_SECONDS]
        for test in ordered[len(cheap) :]:
            by_file[test.partition("::")[0]].append(test)
        turns = [(turn, test) for each in by_file.values() for turn, test in enumerate(each)]
        turns.sort(key=lambda at: (at[0], self.cost(at[1])))
        return cheap + [test for _, test in turns]

    def cost(self, test: str) -> float:
        """Return how long a test took."""
        return self.seconds.get(test, GUESS_SECONDS)


def children(file: str) -> Iterator[str]:
    """Return the folder of tests whose child processes run a file."""
    tests = CHILDREN.get(file.partition("/")[0])
    if tests:
        yield tests


@cache
def callers(fragment: str) -> frozenset[str]:
    """Return the scripts that a Lua file is part of."""
    found = {fragment}
    for path in (PACKAGE / "scripts").rglob("*.lua"):
        if re.search(rf"^-- include: (?:\w+/)?{fragment}$", path.read_text(), re.MULTILINE):
            found |= callers(path.stem)
    return frozenset(found)
