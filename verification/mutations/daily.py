"""The defects that the daily tests must find: each with the daily test that must fail.

A seed of the simulator is sown like all others: into a process of its own. The test that explores
its scenario, and knows nothing of the defect, must then fail.
"""

from __future__ import annotations

from functools import cache

from tests.flows.registry import WORLDS
from tests.flows.seeds.locks import Seed
from verification.mutations.sown import SOWN, Sown

# It explores scenarios of others again, for what hooks are told of them.
AGAIN = "events"


def seeds() -> list[Seed]:
    """Return all seeds of the simulator."""
    return [each for of in WORLDS.values() for each in (*of.seeds, *of.nightly_seeds)]


def defects() -> list[Sown]:
    """Return all defects that are marked as daily."""
    return [each for each in SOWN if each.daily] + [as_sown(seed) for seed in seeds() if seed.daily]


def all_defects() -> list[Sown]:
    """Return all that can be sown into a process that runs a test."""
    return [*(each for each in SOWN if not each.daily), *defects()]


@cache
def tests() -> dict[str, str]:
    """Return the test that explores each scenario, by the scenario's title."""
    return {
        each.title: f"tests/flows/test_{name}.py::test_no_schedule_breaks_a_promise[{each.title}]"
        for name, explored in WORLDS.items()
        for each in explored.worlds()
        if name != AGAIN
    }


def as_sown(seed: Seed) -> Sown:
    """Return a seed as a defect that the test of its scenario must find."""
    title = seed.scenario.as_shipped().title
    check = tests().get(title, f"no test explores {title}")
    return Sown(seed.name, seed.change, check, " ".join(sorted(seed.breaks)), seed.daily)
