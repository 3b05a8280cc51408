"""Events and latches: small worlds to their end under every fault, and faults sown on purpose."""

import pytest

from fencelock._core import pushes
from fencelock._core.objects import event_latch, state_wait
from tests.flows import signals as worlds
from tests.flows.exploring import assert_found, assert_nothing_breaks, both
from tests.flows.seeded import Change, script, seed

# What a wait does after each of its answers; the schedules of all the others are in `deep`.
DISTURBED = [
    each.under(**{fault: 1})
    for each in (worlds.PULSE, worlds.CLOSE, worlds.OPENS, worlds.FELLOWS)
    for fault in worlds.FAULTS
] + [
    *worlds.LATE,
    worlds.REMADE.under(lost=1),
    worlds.DELETED.under(lost=1),
    worlds.PULSE.under(lost=2),
    worlds.OPENS.under(lost=1, cancel=1),
]

SEEDS = (
    seed(
        "a message that is parsed while it takes effect",
        Change(pushes, "if len(words) != number:", "if not words:"),
        worlds.PULSE.under(noise=1),
        "I6",
    ),
    seed(
        "a waiter that is not put on the list",
        script("event_wait", "call('ZADD', KEYS[2], text(now), channel)", "call('ZCARD', KEYS[2])"),
        worlds.SET,
        "I6",
        daily="event",
    ),
    seed(
        "a check of the state and not of the generation",
        script("event_wait", "if since ~= '' then return ended >= tonumber(since) end", ""),
        worlds.PULSE.under(wake=1),
        "I6",
    ),
    seed(
        "a wait without bound",
        Change(state_wait, "min(watch.bound(watcher), give_up_at)", "give_up_at"),
        worlds.PULSE.under(wake=1),
        "I6",
    ),
    seed(
        "a repeated count that counts again",
        script("latch", "if what ~= 'look' and call('ZSCORE'", "if false and call('ZSCORE'"),
        worlds.OPENS.under(lost=1),
        "I4",
        daily="latch",
    ),
    seed(
        "a count that is forgotten after a moment",
        script("latch", "local NETWORK_MS = 60000", "local NETWORK_MS = -39940"),
        worlds.LATE_COUNTS.under(lost=1, down=1),
        "I4",
    ),
    seed(
        "a change of an event that is forgotten after a moment",
        script("event", "local NETWORK_MS = 60000", "local NETWORK_MS = -39940"),
        worlds.LATE_SET.under(lost=1, down=1),
        "I4",
    ),
    seed(
        "requests whose key ends before they do",
        script("latch", "math.max(60000, math.ceil((tonumber(last[2]) - now) / 1000))", "60"),
        worlds.LATE_COUNTS.under(lost=1, down=1),
        "I4",
    ),
    seed(
        "an answered request that takes the others along",
        script("event", "call('ZREM', key, each)", "call('DEL', key)"),
        worlds.PULSES.under(lost=1),
        "I4",
    ),
    seed(
        "a deleted latch whose requests are forgotten",
        script("latch", "call('DEL', KEYS[1])", "call('DEL', KEYS[1], KEYS[3])"),
        worlds.DELETED.under(lost=1),
        "I4",
    ),
    seed(
        "a latch that takes another count while it is counted down",
        script("latch", "(unused or", "(true or"),
        worlds.UNLIKE,
        "I4",
    ),
    seed(
        "a wait that gives up and stays on the list",
        Change(state_wait, "await _leave(port, watcher, ", "await port.sleep("),
        worlds.NEVER,
        "I9",
    ),
    seed(
        "a cancelled wait that stays on the list",
        Change(
            state_wait,
            "port.run_in_background(*_last_request",
            "(lambda *_: None)(*_last_request",
        ),
        worlds.NEVER.under(cancel=1),
        "I9",
    ),
    seed(
        "a wait that a silent connection brings once more, and that stays on the list",
        Change(state_wait, "for stray in watcher.request.strays:", "for stray in ():"),
        worlds.PULSES.under(late=1),
        "I9",
    ),
    seed(
        "a waiter that gives up and takes its fellows off the list",
        Change(event_latch.EventSpec, 'b"" if shared else watcher.channel', "watcher.channel"),
        worlds.QUITTERS,
        "I6",
    ),
    seed(
        "a lost first request that forgets when it began",
        Change(state_wait, "if watcher.sent else 0", "if False else 0"),
        worlds.PULSE.under(lost=1),
        "I6",
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
