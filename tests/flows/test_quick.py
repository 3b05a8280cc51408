"""The quick part of the exploration: small worlds to their end, and every fault sown on purpose.

``python -m tests.flows.deep`` goes further.
"""

import pytest

from tests.flows import scenarios as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both
from tests.flows.seeded import SEEDS
from verification.simulator.explorer import Explorer, explore, replay
from verification.simulator.monitor import Monitor
from verification.simulator.server import Server

FAULTS = (
    *("lost", "zombie", "silent", "late", "wake", "noise", "expiry"),
    *("crash", "pause", "cancel", "back", "restart"),
)

UNDISTURBED = [
    worlds.TWO,
    worlds.THREE,
    worlds.CROWD,
    worlds.TWO_FIXED,
    worlds.TWO_ROUNDS,
    worlds.TWO_LONG,
    worlds.TWO_TOO_LONG,
    worlds.THREE_WORKING,
    worlds.THREE_IMPATIENT,
    worlds.TRIES,
    worlds.TRY_AND_LINE,
    worlds.POLLS,
    worlds.POLL_AND_LINE,
    worlds.FELLOWS,
    worlds.DRIFTING,
    worlds.BROKEN,
    worlds.REVOKED,
    worlds.FOREIGN,
    worlds.OWNER,
    worlds.OWNERS,
    worlds.BY_HAND,
    *worlds.BY_HAND_ANEW,
    *worlds.AFTERWARDS,
    *worlds.LIMITED,
    *worlds.INSTANTS,
    worlds.UNLIKE,
]
AFTERWARDS = [
    scenario.under(**{fault: 1})
    for scenario in (worlds.RETURNED, worlds.CHECKED, worlds.CHECKED_FIXED)
    for fault in ("lost", "silent", "late", "expiry", "pause", "cancel", "restart")
]
UNTIL_INSTANTS = [
    scenario.under(**{fault: 1})
    for scenario in worlds.INSTANTS[1:]
    for fault in ("lost", "late", "cancel", "wake")
]
RENEWED_BY_HAND = [
    scenario.under(**{fault: 1})
    for scenario in (*worlds.BY_HAND_ANEW, worlds.RETURNED_BESIDE)
    for fault in ("lost", "zombie", "late", "cancel", "silent", "pause")
]
DISTURBED = [
    scenario.under(**{fault: 1})
    for scenario in (worlds.TWO, worlds.TWO_IMPATIENT, worlds.TRIES, worlds.OWNER, worlds.POLLS)
    for fault in FAULTS
] + [
    worlds.TWO_LONG.under(lost=1),
    worlds.TWO_LONG.under(late=1),
    worlds.TWO_LONG.under(pause=1),
    worlds.TWO_TOO_LONG.under(late=1),
    worlds.TWO.under(lost=1, crash=1),
    worlds.TWO.under(lost=1, cancel=1),
    worlds.TWO.under(lost=2),
    *(worlds.BROKEN.under(**{fault: 1}) for fault in ("lost", "zombie")),
    worlds.FOREIGN.under(crash=1),
    worlds.FELLOWS.under(lost=1),
    worlds.BY_HAND.under(lost=1),
    worlds.THREE.under(late=1),
]


@pytest.mark.parametrize(
    "scenario",
    both(UNDISTURBED + DISTURBED + UNTIL_INSTANTS + RENEWED_BY_HAND + AFTERWARDS),
    ids=lambda each: each.title,
)
def test_no_schedule_breaks_an_invariant(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)


def test_a_failing_schedule_is_told_line_by_line():
    seed = next(each for each in SEEDS if "deletes" in each.name)
    lines = seed.explore().story().splitlines()
    options = "3000 2000 0 home0 {}"
    said = f"A1 A1 A1 home0  3000 603000 {options}"
    assert f"server: acquire({said}) of A → b'1700" in lines[0]
    assert lines[-1].startswith("→ I5:")


def test_the_same_steps_give_the_same_run():
    server = Server()
    search = Explorer(worlds.TWO_LONG.under(lost=1).build, server)
    report = search.run(seconds=worlds.SECONDS, schedules=7)
    assert report.extent == "capped"
    path = list(search._path)
    assert replay(search._build, server, path) == replay(search._build, server, path)


class Forgetful(set):
    """Holds nothing against a state: each is explored as often as it is met."""

    def __contains__(self, _state):
        return False


def ends(scenario, seen, monkeypatch):
    """Return how every schedule ended: the server, the time, and what each process saw."""
    found = set()

    def end(monitor):
        world = monitor._world
        found.add((world.server.state, world.now_us, *(each.history for each in world.clients)))

    monkeypatch.setattr(Monitor, "end", end)
    search = Explorer(scenario.build, Server())
    search._seen = seen
    assert search.run(seconds=worlds.SECONDS, schedules=100_000).complete
    return found


@pytest.mark.parametrize("faults", [{"lost": 1}, {"late": 1}, {"cancel": 1}, {"crash": 1}], ids=str)
def test_a_state_met_twice_leads_nowhere_new(faults, monkeypatch):
    scenario = worlds.TWO.under(**faults)
    assert ends(scenario, set(), monkeypatch) == ends(scenario, Forgetful(), monkeypatch)


def test_a_budget_of_schedules_is_kept():
    report = explore(worlds.THREE.under(lost=2, late=1).build, schedules=10)
    assert (report.schedules, report.complete) == (10, False)
