"""The defects that the daily tests must find: each as one text for another, and a daily test.

A seed of the simulator is sown like all others: into a copy of the package. The test that explores
its scenario, and knows nothing of the defect, must then fail.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.daily import has_turn
from tests.flows.seeded import Change, Seed
from verification.mutations.real import PACKAGE, ROOT
from verification.mutations.sown import SOWN, Sown

# They explore scenarios of others again, for what hooks are told of them.
AGAIN = frozenset({"tests.flows.test_events"})


def seeds() -> list[Seed]:
    """Return all seeds of the simulator: each is the parameter of a test."""
    return [value for _, _, value in _parameters() if isinstance(value, Seed)]


def defects() -> list[Sown]:
    """Return all defects that are marked as daily."""
    return [each for each in SOWN if each.daily] + [as_sown(seed) for seed in seeds() if seed.daily]


def explorations() -> list[ModuleType]:
    """Return the modules of tests that explore scenarios."""
    files = sorted((ROOT / "tests" / "flows").glob("test_*.py"))
    return [import_module(f"tests.flows.{file.stem}") for file in files]


@cache
def tests() -> dict[str, str]:
    """Return the test that explores each scenario, by the scenario's title."""
    return {
        value.title: f"{_relative(module)}::{name}[{value.title}]"
        for module, name, value in _parameters()
        if module.__name__ not in AGAIN and hasattr(value, "title")
    }


def _parameters() -> Iterator[tuple[ModuleType, str, object]]:
    """Yield the parameters of all tests that explore, each with its module and test."""
    for module in explorations():
        for name, test in vars(module).items():
            for mark in getattr(test, "pytestmark", ()) if name.startswith("test_") else ():
                if mark.name == "parametrize":
                    yield from ((module, name, value) for value in mark.args[1])


def as_sown(seed: Seed) -> Sown:
    """Return a seed as a change of a file, found by the test of its scenario."""
    file, old, new = _place(seed.change)
    ways = (seed.scenario.as_shipped(), seed.scenario.as_shipped().threads())
    checks = [tests().get(each.title, f"no test explores {each.title}") for each in ways]
    check = next(each for each in checks if has_turn(each))
    return Sown(seed.name, file, old, new, check, " ".join(sorted(seed.breaks)), seed.daily)


def _place(change: Change) -> tuple[str, str, str]:
    """Return the file of a change, its text, and the text with the defect."""
    if isinstance(change.where, str):  # the whole script, with its fragments put in
        (file,) = (PACKAGE / "scripts").rglob(f"{change.where}.lua")
        return _in_package(file), file.read_text(), change.source().decode()
    file = Path(inspect.getfile(change.where))
    changed = text = file.read_text()
    for _, function in change.functions():
        source = inspect.getsource(inspect.unwrap(function))
        margin = source[: len(source) - len(source.lstrip())]
        defect = textwrap.indent(change.swapped(textwrap.dedent(source)), margin)
        changed = changed.replace(source, defect)
    return _in_package(file), text, changed


def _in_package(file: Path) -> str:
    return str(file.relative_to(PACKAGE))


def _relative(module: ModuleType) -> str:
    return str(Path(inspect.getfile(module)).relative_to(ROOT))
