"""A lock of a quorum of three in every schedule, with the flows and scripts that ship.

``python -m tests.flows.deep`` goes further, and says how far.
"""

from dataclasses import replace

import pytest

from tests.flows import quorums as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both
from tests.flows.scenarios import SECONDS
from tests.flows.seeded_quorums import SEEDS
from verification.simulator.explorer import Explorer
from verification.simulator.quorum_monitor import QuorumMonitor
from verification.simulator.server import Server

UNDISTURBED = [
    worlds.TWO,
    worlds.THREE,
    worlds.LATE,
    worlds.TWICE,
    worlds.LONG,
    worlds.IMPATIENT,
    worlds.BY_HAND,
    worlds.SHORTER,
    worlds.ABSENT,
    worlds.DRIFTING,
    worlds.RELEASED,
    worlds.FOUR,
    worlds.FOUR_TRIES,
]
DISTURBED = [
    worlds.TWO.under(**{fault: 1}) for fault in ("lost", "late", "wake", "crash", "back")
] + [
    *(worlds.SHORTER.under(**{fault: 1}) for fault in ("lost", "late", "cancel", "zombie")),
    worlds.ABSENT.under(restart=1),
    worlds.UNLIKE.under(restart=1),
    worlds.CLAIMED.under(restart=1),
    worlds.ALONE_OF_TWO.under(down=1),
    worlds.BARE.under(restart=1),
]
# An undo comes late, on a connection of its own, to a node that granted anew meanwhile.
OVERTAKEN = [
    worlds.ALONE_LONG.under(late=1).threads(),  # in a healing vote
    worlds.ALONE_WORKING.under(late=1, down=1).threads(),  # in a later round
]
ALL = both(UNDISTURBED + DISTURBED) + OVERTAKEN


@pytest.mark.parametrize("scenario", ALL, ids=lambda each: each.title)
def test_no_schedule_breaks_an_invariant(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)


class Forgetful(set):
    """Says of every state that it is new."""

    def __contains__(self, state):
        return False


def ends(scenario, seen, monkeypatch):
    """Return all states in which a world's schedules may end."""
    found = set()

    def end(monitor):
        world = monitor._world
        losses = tuple((hold.holder_id, hold.loss) for _, hold in monitor.holds)
        found.add((world.now_us, losses, *(server.state for server in world.servers)))

    monkeypatch.setattr(QuorumMonitor, "end", end)
    search = Explorer(replace(scenario, others=(Server(), Server())).build, Server())
    search._seen = seen
    assert search.run(seconds=SECONDS, schedules=100_000).complete
    return found


@pytest.mark.parametrize("faults", [{}, {"crash": 1}], ids=str)
def test_what_happens_with_several_nodes_has_no_order(faults, monkeypatch):
    """Else a state that is met in another order would be left out wrongly."""
    scenario = worlds.ALONE_RENEWED.under(**faults)
    assert ends(scenario, set(), monkeypatch) == ends(scenario, Forgetful(), monkeypatch)
