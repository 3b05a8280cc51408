"""``multi`` in the simulator: every schedule of small worlds, and what a sown fault breaks."""

import pytest

from tests.flows import multis
from tests.flows.exploring import assert_found, assert_nothing_breaks, both
from tests.flows.seeded import Seed
from tests.flows.sowing import Fault, Statement, Without, script
from tests.flows.test_quick import FAULTS

QUIET = [
    multis.ALONE,
    multis.TWO,
    multis.THREE,
    multis.WORKING,
    multis.LONG,
    multis.TRIES,
    multis.IMPATIENT,
    multis.BESIDE_FIRST,
    multis.BESIDE_LAST,
    multis.BESIDE_LAST_IMPATIENT,
    multis.CROSSED,
    multis.FIXED_TWO,
    multis.FIXED_BRIEF,
    multis.TWICE,
    multis.SHORT_BESIDE,
    multis.PERMIT_TWO,
    multis.PERMIT_WORKING,
    multis.PERMIT_LONG,
    multis.PERMIT_TRIES,
    multis.PERMIT_BESIDE,
    multis.PERMIT_IMPATIENT,
    multis.SIDES,
]
DISTURBED = [
    *(
        scenario.under(**{fault: 1})
        for scenario in (multis.TWO, multis.BESIDE_LAST, multis.BESIDE_LAST_IMPATIENT)
        for fault in FAULTS
    ),
    multis.TRIES.under(lost=1),
    multis.TRIES.under(cancel=1),
    multis.BESIDE_FIRST.under(late=1, wake=1),
    multis.BESIDE_LAST.under(late=1, wake=1),
    multis.ALONE.under(lost=1, cancel=1),
    multis.TWO.under(lost=1, crash=1),
    multis.LONG.under(lost=1),
    multis.TWO_TWICE.under(lost=1),
    multis.PERMIT_ALONE.under(lost=1, cancel=1),
    *(
        scenario.under(**{fault: 1})
        for scenario in (multis.PERMIT_TWO, multis.PERMIT_IMPATIENT)
        for fault in ("lost", "late", "cancel", "crash", "pause")
    ),
]


@pytest.mark.parametrize("scenario", both(QUIET + DISTURBED), ids=lambda each: each.title)
def test_no_schedule_breaks_an_invariant(scenario):
    assert_nothing_breaks(scenario)


SEEDS = [
    Seed(
        "a fixed lease that is handed over starts short",
        Fault("terms.handoff_ttl", lambda *_: 2.0),
        multis.FIXED_BRIEF,
        frozenset({"L", "I2"}),
    ),
    Seed(
        "a waiter in line is overtaken",
        script("multi_acquire", "call('EXISTS', KEYS[base + 2]) == 1", "false"),
        multis.OVERTAKING.under(expiry=1),
        frozenset({"I5"}),
    ),
    Seed(
        "a lock that is held is taken",
        script(
            "multi_acquire",
            "if current and current ~= holder then\n    return recall",
            "if false then\n    return recall",
        ),
        multis.TWO,
        frozenset({"I1", "I4", "I8", "L"}),
    ),
    Seed(
        "a repeated request is refused",
        script("multi_acquire", "current and current ~= holder", "current"),
        multis.TRIES.under(lost=1),
        frozenset({"I9", "I12"}),
    ),
    Seed(
        "the lock of another holder is released",
        script("multi_release", "redis.pcall('GET', KEYS[base]) == holder", "true"),
        multis.WORKING.under(late=1),
        frozenset({"I1"}),
    ),
    Seed(
        "a part whose request was repeated may still arrive after the release",
        Without("attempt.undo_owed", by="joint.release"),
        multis.BESIDE_FIRST.under(late=1, wake=1),
        frozenset({"I9"}),
    ),
    Seed(
        "an undo of several locks that overtakes its request",
        Statement("joint.undo", "seat.path", "None"),
        multis.TRIES.under(cancel=1).threads(),
        frozenset({"I9"}),
    ),
    Seed(
        "the next in line is not granted",
        script("multi_release", "hand_over(base, ARGV[1])", "call('DEL', KEYS[base])"),
        multis.TWO,
        frozenset({"I5", "I6"}),
    ),
    Seed(
        "a permit is not released at the timeout",
        Without("joint.drop", by="joint.in_order"),
        multis.PERMIT_IMPATIENT,
        frozenset({"I9", "I11"}),
    ),
    Seed(
        "a repeated release of a part is refused",
        Statement("joint.ask", "self.unsure.add(part)", "pass"),
        multis.PERMIT_TWO.under(lost=1),
        frozenset({"I4"}),
    ),
    Seed(
        "a timeout that leaves a line and then releases, each with a time of its own",
        Statement("joint.drop", "max(now, give_up_at + DROPPING_SECONDS)", "FOR_EVER"),
        multis.BESIDE_LAST_IMPATIENT.under(late=2),
        frozenset({"I13"}),
    ),
    Seed(
        "a timeout keeps what it has",
        Without("joint.drop", by="joint.in_order"),
        multis.BESIDE_LAST_IMPATIENT,
        frozenset({"I9", "I11"}),
        daily="multi",
    ),
    Seed(
        "a cancelled wait keeps what it has",
        Without("engine.release_later", by="joint.undo"),
        multis.BESIDE_LAST.under(cancel=1),
        frozenset({"I9"}),
    ),
    Seed(
        "a cancelled request is not undone",
        Without("wire.post", by="joint.undo"),
        multis.ALONE.under(cancel=1),
        frozenset({"I9"}),
    ),
    Seed(
        "it is granted with a lease that is lost",
        Statement("joint.acquire", "not granted or not any(hold.lost for hold in holds)", "True"),
        multis.BESIDE_LAST_IMPATIENT.under(pause=1),
        frozenset({"I8"}),
        daily="multi",
    ),
]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)
