"""Barriers: small worlds to their end under every fault, and faults sown on purpose."""

from math import inf

import pytest

from fencelock._core.objects import state_wait
from tests.flows import barriers as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both
from tests.flows.seeded import seed
from tests.flows.sowing import Fault, Statement, nothing, script

DISTURBED = [
    each.under(**{fault: 1})
    for each in (worlds.PAIR, worlds.ROUNDS, worlds.LATE, worlds.ACTS, worlds.WIDOW)
    for fault in worlds.FAULTS
] + [
    *worlds.AWAY,
    worlds.ACTS.under(lost=1, cancel=1),
    worlds.DELETED.under(lost=1),
    worlds.PAIR.under(lost=2),
    worlds.CROWD.under(lost=1),
    worlds.FULL.under(cancel=1),
    worlds.FELLOWS.under(lost=1),
]


SEEDS = (
    seed(
        "a time in which no party could be heard, counted as silence of all",
        script(
            "barrier_check", "is_in_doubt(heartbeat) and number('since') or heartbeat", "heartbeat"
        ),
        worlds.OUTAGE.under(down=1),
        "I7",
    ),
    seed(
        "an action whose party does not prove that it lives",
        Fault("barrier.prove", nothing),
        worlds.LONG.under(down=1),
        "I7",
    ),
    seed(
        "a cancelled party that breaks the barrier before its action began",
        Statement("barrier.leave", "b'abort' if watcher.place == ACTING else b'leave'", "b'abort'"),
        worlds.ACTS.under(cancel=1),
        "I7",
        daily="barrier",
    ),
    seed(
        "a party that is counted again when it repeats its request",
        script("barrier_arrive", "if call('HGET', KEYS[4], waiter) then", "if false then"),
        worlds.PAIR.under(lost=1),
        "I1 I4 I6",
    ),
    seed(
        "a party that is cancelled and keeps its place",
        script("barrier_check", "number('count') - 1", "number('count')"),
        worlds.PAIR.under(cancel=1),
        "I1",
        daily="barrier",
    ),
    seed(
        "a dead party that is not found",
        script("barrier_check", "end\nremove_dead()", "end"),
        worlds.WIDOW.under(crash=1),
        "I7",
    ),
    seed(
        "a timeout that does not break the barrier for the others",
        script("barrier_check", "return break_up('timeout')", "return"),
        worlds.ALONE,
        "I9",
    ),
    seed(
        "a generation that passes although the next one broke for all",
        script("barrier_check", "or 'passed'", "or field('broken') or 'passed'"),
        worlds.HASTY.under(wake=1),
        "I1",
    ),
    seed(
        "an action that runs when all have passed",
        script("barrier_arrive", "elseif ARGV[6] == '1' then", "elseif false then"),
        worlds.ACTS,
        "I4",
    ),
    seed(
        "an action whose end is reported without a bound",
        Statement(
            "barrier.act",
            "until = answer_by(port, port.now(), give_up_at)",
            "until = port.now() + port.server_timeout",
        ),
        worlds.FULL.under(down=1),
        "I13",
    ),
    seed(
        "a wait without bound",
        Fault("state.bound", lambda *_: inf),
        worlds.PAIR.under(wake=1),
        "I6",
    ),
    seed(
        "an index that two parties have",
        script("barrier_arrive", "call('HSET', KEYS[1], 'next', index + 1)", ""),
        worlds.PAIR,
        "I1",
    ),
)


@pytest.mark.parametrize(
    "scenario", both(list(worlds.ALL) + DISTURBED), ids=lambda each: each.title
)
def test_no_schedule_breaks_a_promise(scenario):
    assert_nothing_breaks(scenario)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda each: each.name)
def test_a_sown_fault_is_found(seed):
    assert_found(seed)


@pytest.fixture
def small_looks(monkeypatch):
    """Let a command ask about two waiters, as it does about a thousand."""
    monkeypatch.setattr(state_wait, "WAITERS_PER_CHECK", 2)


@pytest.mark.parametrize("scenario", both([worlds.MANY]), ids=lambda each: each.title)
def test_more_parties_than_one_command_asks_about(scenario, small_looks):
    assert_nothing_breaks(scenario)


def test_a_look_that_proves_the_first_parties_only_is_found(small_looks):
    change = Statement(
        "_core.objects.state_wait:_look",
        "if watcher.signal.lists_channels or watcher.verdict is not None:",
        "if True:",
    )
    assert_found(seed("a look that proves the first parties only", change, worlds.MANY, "I7"))
