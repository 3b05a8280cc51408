"""The daily tests find what is sown and marked as daily: of each invariant, and in each object."""

import subprocess
import sys

import pytest

from tests.flows.alphabet import CALLS
from verification.mutations.daily import as_sown, defects, seeds
from verification.mutations.real import ROOT, tried
from verification.mutations.sown import SOWN

INVARIANTS = {f"I{number}" for number in range(1, 14)}
# Those of cohorts and of a Cluster are locks; what has another layout, or replicas, is no call.
KINDS = CALLS.keys() - {"cohort", "cluster"} | {"replicas", "redisson"}


def test_each_invariant_and_each_kind_of_object_has_a_daily_defect():
    assert {rule for each in defects() for rule in each.breaks.split()} >= INVARIANTS
    assert {each.daily for each in defects()} == KINDS


@pytest.mark.slow
@pytest.mark.parametrize(
    "sown",
    [each for each in SOWN if each.daily],
    ids=lambda each: f"{each.daily}: {each.name}",
)
def test_a_daily_test_finds_it(sown):
    """In a process of its own; a test that waits for the night finds nothing here."""
    assert tried(sown, "--part=daily"), sown.check


@pytest.mark.slow
def test_a_daily_test_explores_the_world_of_each_seed():
    """That a world shows its seed is a test of tests/flows, in the same process."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--part=daily"]
    words = [*command, "-p", "no:cacheprovider", "tests/flows"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    daily = set(listed.splitlines())
    checks = [as_sown(seed).check for seed in seeds() if seed.daily]
    assert checks
    assert [check for check in checks if check not in daily] == []
