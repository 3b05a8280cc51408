"""Which tests can kill a mutant: those that run its line, or call its script."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from verification.mutations.generated.mutants import Mutant

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "src" / "fencelock"
BUILD = ROOT / "build" / "mutants"
RECORDINGS = BUILD / "recordings"

# What runs in child processes is not in the recordings: part of the package → its tests.
CHILDREN = {
    "cli/_top/": "tests/integrations/top",
    "cli/": "tests/cli",
    "__main__.py": "tests/cli",
    "embedded/": "tests/embedded",
    "_io/port_blocking.py": "tests/threads/test_fork.py",
    "_io/renewal_thread.py": "tests/threads/test_fork.py",
    "contrib/asgi/": "tests/integrations/asgi",
    "contrib/celery/": "tests/integrations/celery",
    "contrib/django/": "tests/integrations/django",
    "compat/": "tests/integrations/compat",
    "dashboard/": "tests/integrations/dashboard",
    "fences/": "tests/integrations/fences",
    "instrumentation/": "tests/integrations/instrumentation",
    "testing/": "tests/integrations/testing",
}
DAILY, NIGHT = "daily", "rest"  # as ``--part`` of pytest calls them
DEFINED = re.compile(r"(\w+)(?:: [^=]+)? = ")  # what a line gives a value
CHEAP_SECONDS = 0.05  # most tests of the simulated keyspace, and of pure functions


def record(tests: Iterable[str], processes: int, parts: Sequence[str]) -> int:
    """Run tests of one part or of both, and record what they run; return pytest's status."""
    plugin = "verification.mutations.generated.recorder"
    options = ["-q", "--kinds=1", f"--numprocesses={processes}", "--dist=loadfile", "-p", plugin]
    options += [f"--part={part}" for part in parts if len(parts) == 1]
    command = [sys.executable, "-m", "pytest", *options, *tests]
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
        self.night: set[str] = set()
        for path in RECORDINGS.glob("*.json"):
            self._add(json.loads(path.read_text()))

    def _add(self, recording: dict[str, dict[str, list[str]]]) -> None:
        for name, tests in recording["lines"].items():
            self.lines[name].update(tests)
            self.files[name.partition(":")[0]].update(tests)
        for name, tests in recording["scripts"].items():
            self.scripts[name].update(tests)
        self.seconds.update(recording["seconds"])
        self.night.update(recording["night"])

    def of(self, mutant: Mutant, part: str) -> list[str]:
        """Return the tests of a part that can kill a mutant, in the order in which to try them."""
        file = mutant.file
        if file.endswith(".lua"):
            tests = {test for name in callers(Path(file).stem) for test in self.scripts[name]}
        else:
            tests = self.lines[f"{file}:{self._name(mutant)}"] or self._users(mutant)
        # One that sows a defect fails where the text is another: that says nothing of the mutant.
        chosen = (test for test in tests if "sown" not in test and self.part(test) == part)
        return self._in_turn(chosen) + children(file)

    def _users(self, mutant: Mutant) -> set[str]:
        """Return the tests that use what a module or class defines in a line: it runs for none."""
        defined = DEFINED.match(mutant.before)
        if defined is None:
            return self.files[mutant.file]
        uses = re.compile(rf"\b{defined[1]}\b")
        using = (tests for line, tests in self.lines.items() if uses.search(line))
        return set().union(*using) or self.files[mutant.file]

    def part(self, test: str) -> str:
        """Return whether a test is daily, or waits for the night."""
        return NIGHT if test in self.night else DAILY

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
        """Return how long a test took, or all tests of a file or folder."""
        if test in self.seconds:
            return self.seconds[test]
        inside = (f"{test}/", f"{test}::")
        return sum(each for name, each in self.seconds.items() if name.startswith(inside))


def children(file: str) -> list[str]:
    """Return the tests whose child processes run a file, if there are any."""
    return [tests for part, tests in CHILDREN.items() if file.startswith(part)][:1]


@cache
def callers(fragment: str) -> frozenset[str]:
    """Return the scripts that a Lua file is part of."""
    found = {fragment}
    for path in (PACKAGE / "scripts").rglob("*.lua"):
        if re.search(rf"^-- include: (?:\w+/)?{fragment}$", path.read_text(), re.MULTILINE):
            found |= callers(path.stem)
    return frozenset(found)
