"""Conditions: small worlds to their end under every fault, and faults sown on purpose."""

from math import inf

import pytest

from tests.flows import conditions as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both
from tests.flows.seeded import seed
from tests.flows.sowing import Fault, Statement, Without, script

DISTURBED = [
    each.under(**{fault: 1})
    for each in (worlds.ONE, worlds.CLOSE, worlds.ALONE)
    for fault in worlds.FAULTS
    if (each, fault) != (worlds.CLOSE, "expiry")
] + [
    *(
        worlds.TWO_ONE.under(**{fault: 1})
        for fault in ("lost", "zombie", "wake", "crash", "cancel")
    ),
    *(each.under(zombie=1) for each in (worlds.RACE, worlds.BUSY, worlds.LINED)),
    worlds.RACE.under(zombie=1, wake=1),
    *(worlds.LINED.under(**faults) for faults in ({"late": 1, "wake": 1}, {"late": 1, "cut": 1})),
    worlds.LINED_NOTIFIED.under(late=1, cut=1),
]

# The whole of this one is explored with threads: its asyncio form has ten times the schedules.
EXPIRED = [*both([worlds.CLOSE_BRIEF.under(expiry=1)]), worlds.CLOSE.under(expiry=1).threads()]

CONDITION = "_core.objects.condition"


SEEDS = (
    seed(
        "a wait that releases the lock before it is in line",
        script("condition_wait", "enqueue(KEYS[7], member, text(now))", ""),
        worlds.ONE,
        "I6",
        daily="condition",
    ),
    seed(
        "a wait that is not recognised when it is repeated",
        script("condition_wait", "if current == ARGV[5] or", "if false and"),
        worlds.ONE.under(lost=1),
        "I9 I6",
    ),
    seed(
        "a notification for one that wakes two",
        script("condition_notify", "if moved == n then break end", ""),
        worlds.TWO_ONE,
        "I4",
    ),
    seed(
        "a repeated notification that notifies again",
        script("condition_notify", "== 0 then return 0 end", "== 2 then return 0 end"),
        worlds.TWO_ONE.under(lost=1),
        "I4",
        daily="condition",
    ),
    seed(
        "a cancelled waiter that keeps its notification",
        script("condition_leave", "notify(ARGV[3], 1)", ""),
        worlds.TWO_ONE.under(cancel=1),
        "I6",
    ),
    seed(
        "a dead waiter whose notification is not passed on",
        script("release", "elseif string.sub(id, 1, 1) == '~' then", "elseif false then"),
        worlds.TWO_ONE.under(crash=1),
        "I6",
    ),
    seed(
        "a timed-out waiter that does not check whether it was notified",
        Statement(f"{CONDITION}:wait", "await _late(port, wait, waiter)", "False"),
        worlds.CLOSE,
        "I6 I9",
    ),
    seed(
        "a timed-out waiter that forgets its notification when its acquire came once more",
        script("condition_leave", "return notified", "return current ~= ARGV[1] and notified or 0"),
        worlds.RACE.under(zombie=1, wake=1),
        "I6",
    ),
    seed(
        "a request that was asked again and may still come when its hold has ended",
        Without("wire.post", by="attempt.undo_owed"),
        worlds.LINED.under(late=1, wake=1),
        "I9",
    ),
    seed(
        "a request that may still come, whose undo leaves its place in line",
        Statement("attempt.undo_owed", "request.abandon(stray.channel)", "request.abandon(b'')"),
        worlds.LINED_NOTIFIED.under(late=2).threads(),
        "I9",
    ),
    seed(
        "a wait whose end is not undone",
        Statement("_core.objects.state_wait:wait_for", "_undo(port, watcher)\nraise", "raise"),
        worlds.ALONE.under(cancel=1),
        "I9 I6",
    ),
    seed(
        "a wait without bound",
        Fault("state.bound", lambda *_: inf),
        worlds.ONE.under(wake=1),
        "I6",
    ),
    seed(
        "a hold that is given back for an interrupted wait, and believed in",
        Without("keeper.retire", by=f"{CONDITION}:_interrupted"),
        worlds.STRUCK,
        "I1 I8 I11",
    ),
    seed(
        "a lease that is renewed while its holder waits",
        Without("keeper.retire", by=f"{CONDITION}:_end_tenure"),
        worlds.ONE,
        "I1 I11",
    ),
)


@pytest.mark.parametrize(
    "scenario", both(list(worlds.ALL) + DISTURBED) + EXPIRED, ids=lambda each: each.title
)
def test_no_schedule_breaks_a_promise(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)
