"""``multi`` in the simulator: every schedule of small worlds, and what a sown fault breaks."""

import pytest

from fencelock._core import multi
from fencelock._core.want import Form
from tests.flows import several
from tests.flows.exploring import assert_found, assert_nothing_breaks, both
from tests.flows.seeded import Change, Seed
from tests.flows.test_quick import FAULTS

QUIET = [
    several.ALONE,
    several.TWO,
    several.THREE,
    several.WORKING,
    several.LONG,
    several.TRIES,
    several.IMPATIENT,
    several.BESIDE_FIRST,
    several.BESIDE_LAST,
    several.BESIDE_LAST_IMPATIENT,
    several.CROSSED,
    several.FIXED_TWO,
    several.FIXED_BRIEF,
    several.TWICE,
    several.SHORT_BESIDE,
    several.PERMIT_TWO,
    several.PERMIT_WORKING,
    several.PERMIT_LONG,
    several.PERMIT_TRIES,
    several.PERMIT_BESIDE,
    several.PERMIT_IMPATIENT,
    several.SIDES,
]
DISTURBED = [
    *(
        scenario.under(**{fault: 1})
        for scenario in (several.TWO, several.BESIDE_LAST, several.BESIDE_LAST_IMPATIENT)
        for fault in FAULTS
    ),
    several.TRIES.under(lost=1),
    several.TRIES.under(cancel=1),
    several.BESIDE_FIRST.under(late=1, wake=1),
    several.BESIDE_LAST.under(late=1, wake=1),
    several.ALONE.under(lost=1, cancel=1),
    several.TWO.under(lost=1, crash=1),
    several.LONG.under(lost=1),
    several.TWO_TWICE.under(lost=1),
    several.PERMIT_ALONE.under(lost=1, cancel=1),
    *(
        scenario.under(**{fault: 1})
        for scenario in (several.PERMIT_TWO, several.PERMIT_IMPATIENT)
        for fault in ("lost", "late", "cancel", "crash", "pause")
    ),
]


@pytest.mark.parametrize("scenario", both(QUIET + DISTURBED), ids=lambda each: each.title)
def test_no_schedule_breaks_an_invariant(scenario):
    assert_nothing_breaks(scenario)


SEEDS = [
    Seed(
        "a fixed lease that is handed over starts short",
        Change(Form, "min(self.ttl, CLAIM_SECONDS) if grows else self.ttl", "2.0"),
        several.FIXED_BRIEF,
        frozenset({"L", "I2"}),
    ),
    Seed(
        "a waiter in line is overtaken",
        Change("multi_take", "call('EXISTS', KEYS[base + 2]) == 1", "false"),
        several.OVERTAKING.under(expiry=1),
        frozenset({"I5"}),
    ),
    Seed(
        "a lock that is held is taken",
        Change("multi_take", "if current and current ~= holder then return i end", ""),
        several.TWO,
        frozenset({"I1", "I4", "I8"}),
    ),
    Seed(
        "a repeated request is refused",
        Change("multi_take", "current and current ~= holder", "current"),
        several.TRIES.under(lost=1),
        frozenset({"I9", "I12"}),
    ),
    Seed(
        "the lock of another holder is released",
        Change("multi_release", "redis.pcall('GET', KEYS[base]) == holder", "true"),
        several.WORKING.under(late=1),
        frozenset({"I1"}),
    ),
    Seed(
        "a part whose request was repeated may still arrive after the release",
        Change(multi, "            sweep(port, hold.want)", "            pass"),
        several.BESIDE_FIRST.under(late=1, wake=1),
        frozenset({"I9"}),
    ),
    Seed(
        "an undo of several locks that overtakes its request",
        Change(multi, "waiter.trail or waiter.seat", "waiter.trail and waiter.seat"),
        several.TRIES.under(cancel=1).threads(),
        frozenset({"I9"}),
    ),
    Seed(
        "the next in line is not granted",
        Change("multi_release", "hand_over(base, ARGV[1])", "call('DEL', KEYS[base])"),
        several.TWO,
        frozenset({"I5", "I6"}),
    ),
    Seed(
        "a permit is not released at the timeout",
        Change(
            multi,
            "if hold is None:\n                await _drop(port, holds, takers)",
            "if not hold:",
        ),
        several.PERMIT_IMPATIENT,
        frozenset({"I9", "I11"}),
    ),
    Seed(
        "a repeated release of a part is refused",
        Change(multi, "given.unsure.add(want)", "pass"),
        several.PERMIT_TWO.under(lost=1),
        frozenset({"I4"}),
    ),
    Seed(
        "a timeout keeps what it has",
        Change(
            multi,
            "if hold is None:\n                await _drop(port, holds, takers)",
            "if not hold:",
        ),
        several.BESIDE_LAST_IMPATIENT,
        frozenset({"I9", "I11"}),
    ),
    Seed(
        "a cancelled wait keeps what it has",
        Change(multi, "for hold in reversed(holds):", "for hold in ():"),
        several.BESIDE_LAST.under(cancel=1),
        frozenset({"I9"}),
    ),
    Seed(
        "a cancelled request is not undone",
        Change(multi, "if waiter.began:", "if False:"),
        several.ALONE.under(cancel=1),
        frozenset({"I9"}),
    ),
    Seed(
        "it is granted with a lease that is lost",
        Change(multi, "or not any(hold.lost for hold in holds)", "or True"),
        several.BESIDE_LAST_IMPATIENT.under(pause=1),
        frozenset({"I8"}),
    ),
]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)
