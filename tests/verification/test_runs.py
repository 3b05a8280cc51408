"""Real clients and servers under faults: a short selection; for long, ``verification/runs``.

Each fault strikes once, in a fixed order, by a fixed seed.
"""

import pytest

from verification.runs import shims
from verification.runs.run import Run
from verification.soak import LASTING, Soak, told

SEED = 1
ENOUGH_SECONDS = 40
# Nodes that come back, and slots that move to and fro, while their locks are in use.
ON_SEVERAL = {
    "quorum": [
        "freeze minority",
        "freeze and restart others",
        "kill client",
        "freeze client",
        "drop 0",
    ],
    "cluster": ["move slot", "kill client", "freeze client", "kill links", "freeze node"],
    "cluster acknowledged": ["freeze master for long", "freeze client"],
    "address": ["move address", "freeze client", "freeze master for long", "kill client"],
}
TURNS = {"quorum": 2, "cluster": 1, "cluster acknowledged": 1, "address": 2}
MOVING_SECONDS = 2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
clock = pytest.mark.skipif(bool(shims.why_not()), reason=shims.why_not())


def test_nothing_is_violated_when_each_covered_fault_strikes():
    with Run("persistent", seed=SEED) as run:
        run.each()
        run.finish()
        report = run.report()
        assert run.violations() == [], report
    assert report["covered"]
    assert set(run.struck) == {fault.name for fault in run.faults}
    assert report["grants"] > 50, report
    assert report["calls checked"] > 100, report
    assert report["longest gap"] < 6, report


@pytest.mark.parametrize(
    ("servers", "fault"),
    [
        pytest.param("one", "clock forward", marks=clock),
        pytest.param("one", "clock far too fast", marks=clock),
        ("forgetful", "restart"),
        pytest.param("everysec", "power loss", marks=clock),
    ],
)
def test_what_the_guarantees_exclude_is_seen_and_the_fence_makes_it_harmless(servers, fault):
    with Run(servers, seed=SEED, faults=[fault]) as run:
        run.rage(ENOUGH_SECONDS, until_seen=True)
        run.finish()
        report = run.report()
        assert run.violations() == [], report
    assert not report["covered"]
    assert report["overlaps of proved leases"] > 0
    assert report["not linearizable"] != []
    assert report["stale writes refused"] > 0
    assert report["stale writes accepted"] == 0


@pytest.mark.parametrize("servers", ON_SEVERAL)
def test_nothing_is_violated_on_several_servers(servers):
    with Run(servers, seed=SEED, faults=ON_SEVERAL[servers]) as run:
        for _ in range(TURNS[servers]):
            run.each()
        run.finish()
        report = run.report()
        assert run.violations() == [], report
    assert report["covered"]
    assert set(run.struck) == set(ON_SEVERAL[servers])
    assert report["grants"] > 5, report
    assert report["calls checked"] > 10, report


def test_no_renewed_lease_is_lost_while_slots_move_and_masters_hand_over():
    """The leases are long: what loses one is the move, not a busy machine."""
    with Run("cluster failover", seed=SEED, faults=["move slot", "failover by order"]) as run:
        while run.struck["move slot"] < 2:  # on a slow machine it takes longer
            run.rage(MOVING_SECONDS)
        run.finish()
        report = run.report()
        assert run.violations() == [], report
    assert report["covered"]
    assert report["grants"] > 3, report
    assert report["lost though renewed"] == 0, report
    assert run.struck["move slot"] > 1, report


def test_a_short_soak_violates_nothing_and_leaves_nothing_behind():
    with Run("persistent", seed=SEED, lasting=LASTING) as run:
        soak = Soak(run)
        soak.go_on(6)
        text, bad = told(soak, "a test")
    assert bad == [], text
    assert len(soak.server) >= 2, text
    assert {client.face for client in soak.lasting()} == {"threads", "tasks"}
