"""``once`` in the simulator: every schedule of small worlds, and what a sown fault breaks."""

import pytest

from tests.flows import forgetting, runs_once
from tests.flows.exploring import assert_found, assert_nothing_breaks, both
from tests.flows.seeded import Seed
from tests.flows.sowing import Statement, Without, script
from tests.flows.test_quick import FAULTS

QUIET = [
    runs_once.TWO,
    runs_once.THREE,
    runs_once.SHORT,
    runs_once.WORKING,
    runs_once.LONG,
    runs_once.TRIES,
    runs_once.IMPATIENT,
    runs_once.FAILING,
    runs_once.BESIDE_LOCK,
    forgetting.ALONE,
    forgetting.FORGOTTEN,
]
# A server that forgets everything has it run anew.
KEEPING = [fault for fault in FAULTS if fault != "restart"]
DISTURBED = [
    *(
        scenario.under(**{fault: 1})
        for scenario in (runs_once.TWO, runs_once.TRIES)
        for fault in KEEPING
    ),
    runs_once.WORKING.under(lost=1),
    runs_once.WORKING.under(crash=1),
    runs_once.WORKING.under(pause=1),
    runs_once.LONG.under(pause=1),
    runs_once.LONG.under(lost=1),
    runs_once.IMPATIENT.under(lost=1),
    runs_once.IMPATIENT.under(cancel=1),
    runs_once.TWO.under(lost=1, cancel=1),
    runs_once.ALONE.under(lost=1, cancel=1),
    *(runs_once.ALONE_WORKING.under(**{fault: 1}) for fault in ("pause", "expiry", "late")),
    runs_once.TWO.under(lost=1, crash=1),
    runs_once.TWO.under(lost=2),
    runs_once.TWO.under(expiry=1, lost=1),
    *(forgetting.FORGOTTEN.under(**{fault: 1}) for fault in ("lost", "zombie", "late", "cancel")),
]


@pytest.mark.parametrize("scenario", both(QUIET + DISTURBED), ids=lambda each: each.title)
def test_no_schedule_breaks_an_invariant(scenario):
    assert_nothing_breaks(scenario)


SEEDS = [
    Seed(
        "a run begins though it is done",
        script("once_start", "redis.call('EXISTS', KEYS[6]) == 1", "false"),
        runs_once.TWO,
        frozenset({"I1"}),
        daily="once",
    ),
    Seed(
        "a caller that waits for the result is not notified",
        script("once_finish", "send_grant(channel, waiter, '0', now, '60000')", ""),
        runs_once.SHORT,
        frozenset({"I6"}),
    ),
    Seed(
        "a caller that waits for the result stays in line and is granted the lock",
        script("once_finish", "call('ZREM', KEYS[3], entry)", ""),
        runs_once.WORKING,
        frozenset({"I1"}),
    ),
    Seed(
        "a run that was overtaken keeps its result",
        script("once_finish", "current ~= holder and (current or last ~= holder", "false and (nil"),
        runs_once.LONG.under(pause=1),
        frozenset({"I1"}),
    ),
    Seed(
        "the lock is kept when the run is done",
        script("once_finish", "hand_over(1, ARGV[2])", "grant_next(1, '', ARGV[2])"),
        runs_once.BESIDE_LOCK,
        frozenset({"I1", "I6", "I9"}),
    ),
    Seed(
        "a repeated end is refused",
        script("once_finish", "if kept == holder then return 1 end", ""),
        runs_once.BESIDE_LOCK.under(lost=1),
        frozenset({"I4"}),
    ),
    Seed(
        "the end of a run that outlasted its lease is not noticed",
        Statement("once.finish", "if hold.lost:", "if False:"),
        runs_once.ALONE_WORKING.under(pause=1),
        frozenset({"I8"}),
        daily="once",
    ),
    Seed(
        "an end without a reply is not repeated",
        Without("wire.post", by="once.finish"),
        runs_once.ALONE.under(lost=1, cancel=1),
        frozenset({"I9"}),
    ),
]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)
