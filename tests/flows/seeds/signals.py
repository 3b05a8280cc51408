"""Faults sown into events and latches."""

from math import inf

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, Without, script
from tests.flows.worlds import signals as worlds


def as_if_alone(real, wait, *, late, shared):
    """Leave as if no other waiter of this client shared the channel."""
    del shared
    return real(wait, late=late, shared=False)


SEEDS = (
    seed(
        "a message that is parsed while it takes effect",
        Statement("push.parsed", "if len(words) != number:", "if not words:"),
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
        script("event_wait", "since ~= '' and ended >= tonumber(since)", "false"),
        worlds.PULSE.under(wake=1),
        "I6",
    ),
    seed(
        "a wait without bound",
        Fault("state.bound", lambda *_: inf),
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
        Fault("state.leave", lambda _real, wait, until: wait.port.sleep(until)),
        worlds.NEVER,
        "I9",
    ),
    seed(
        "a cancelled wait that stays on the list",
        Without("wire.post", by="state.undo"),
        worlds.NEVER.under(cancel=1),
        "I9",
    ),
    seed(
        "a wait that a silent connection brings once more, and that stays on the list",
        Statement("state.undo", "for stray in self.owed:", "for stray in ():"),
        worlds.PULSES.under(late=1),
        "I9",
    ),
    seed(
        "a waiter that gives up and takes its fellows off the list",
        Fault("event.leave", as_if_alone),
        worlds.QUITTERS,
        "I6",
    ),
    seed(
        "a lost first request that forgets when it began",
        Fault("event.first", lambda real, wait, _asked_us: real(wait, 0)),
        worlds.PULSE.under(lost=1),
        "I6",
    ),
)
