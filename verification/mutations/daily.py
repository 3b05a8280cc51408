"""The defects that the daily tests must find: each with the daily test that must fail.

A seed of the simulator is sown like all others: into a process of its own. The test that explores
its scenario, and knows nothing of the defect, must then fail.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.faces import has_turn
from tests.flows.seeded import Seed
from verification.mutations.real import ROOT
from verification.mutations.sown import SOWN, Sown

# They explore scenarios of others again, for what hooks are told of them.
AGAIN = frozenset({"tests.flows.test_events"})


def seeds() -> list[Seed]:
    """Return all seeds of the simulator: each is the parameter of a test."""
    return [value for _, _, value in _parameters() if isinstance(value, Seed)]


def defects() -> list[Sown]:
    """Return all defects that are marked as daily."""
    return [each for each in SOWN if each.daily] + [as_sown(seed) for seed in seeds() if seed.daily]


def all_defects() -> list[Sown]:
    """Return all that can be sown into a process that runs a test."""
    return [*(each for each in SOWN if not each.daily), *defects()]


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
    """Return a seed as a defect that the test of its scenario must find."""
    ways = (seed.scenario.as_shipped(), seed.scenario.as_shipped().threads())
    checks = [tests().get(each.title, f"no test explores {each.title}") for each in ways]
    check = next(each for each in checks if has_turn(each))
    return Sown(seed.name, seed.change, check, " ".join(sorted(seed.breaks)), seed.daily)


def _relative(module: ModuleType) -> str:
    return str(Path(inspect.getfile(module)).relative_to(ROOT))
