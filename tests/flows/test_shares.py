"""Semaphores and reader/writer locks in the simulator: small worlds and sown faults."""

import pytest

from tests.flows import shares as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both
from tests.flows.seeded_shares import SEEDS
from tests.flows.test_quick import FAULTS

UNDISTURBED = [each for each in vars(worlds).values() if isinstance(each, worlds.Shared)]
DISTURBED = [
    scenario.under(**{fault: 1})
    for scenario in (worlds.TWO, worlds.IMPATIENT, worlds.PARTS, worlds.DOWNGRADED)
    for fault in FAULTS
] + [
    worlds.THREE.under(lost=1),
    worlds.MIXED.under(crash=1),
    worlds.LOWERED.under(lost=1),
    worlds.LONG.under(late=1),
    worlds.TRIES.under(lost=1),
    *(worlds.BROKEN.under(**{fault: 1}) for fault in ("lost", "zombie")),
    worlds.CHANGED.under(cancel=1),
    worlds.READERS.under(crash=1),
    worlds.TOO_LONG_SIDES.under(late=1),
    worlds.SIDES.under(expiry=1),
    worlds.TWO.under(lost=1, crash=1),
    worlds.SIDES.under(lost=1, cancel=1),
    worlds.IN_LINE.under(lost=1),
    worlds.IN_LINE.under(cut=1),
    worlds.MIXED.under(cut=1),
    worlds.IMPATIENT_SIDES.under(cut=1),
    worlds.IN_LINE.under(reboot=1),
    worlds.IN_LINE.under(silent=1),
    worlds.MIXED.under(reboot=1),
    worlds.WORKING.under(reboot=1),
    worlds.CHANGED_TWICE.under(lost=1),
    worlds.CHANGED_TWICE.under(reboot=1),
    *(worlds.SET_TWICE.under(**{fault: 1}) for fault in ("lost", "zombie", "late", "cancel")),
    worlds.SET_TWICE.under(late=2),
    worlds.BY_HAND.under(lost=1),
    worlds.BY_HAND_SHORTER.under(lost=1),
    worlds.BY_HAND_SHORTER.under(late=1),
    worlds.BY_HAND_RENEWED.under(lost=1),
    worlds.BY_HAND_SIDES.under(cancel=1),
    worlds.DOWNGRADED_UNLIKE.under(lost=1),
    worlds.DOWNGRADED_UNLIKE.under(reboot=1),
    worlds.UNLIKE.under(reboot=1),
    worlds.UNLIKE_SIDES.under(lost=1),
]


@pytest.mark.parametrize("scenario", both(UNDISTURBED + DISTURBED), ids=lambda each: each.title)
def test_no_schedule_breaks_an_invariant(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.parametrize("sown", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(sown):
    assert_found(sown)
