"""What is explored of events and latches: who waits, who changes the state."""

from functools import partial

from fencelock._core.keys import SignalKeys
from fencelock._core.objects.event_latch import change
from fencelock._core.objects.state_wait import StateSpec
from tests.flows.worlds.locks import Scenario, process, rests
from tests.flows.worlds.runs_once import errors
from verification.simulator.events import GateMonitor, count_down

KEYS = SignalKeys("", "signal")
EVENT = StateSpec(KEYS, b"event", 60.0)
LATCH = StateSpec(KEYS, b"latch", 60.0, 2)
OTHER = StateSpec(KEYS, b"latch", 60.0, 1)
LARGE = StateSpec(KEYS, b"latch", 60.0, 3)
# Longer than a lost message may cost, so that a wait which misses its state is found out.
PATIENCE = 6.0


def waiter(spec, timeout=PATIENCE, rounds=1):
    """A process that waits."""

    async def waits(actor):
        for _ in range(rounds):
            await actor.world.monitor.waits(actor.client, spec, timeout)

    return process(waits)


def fellows(spec, *timeouts):
    """A process whose tasks wait, each for as long as it likes: at a barrier, too."""

    async def waits(actor, timeout):
        await actor.world.monitor.waits(actor.client, spec, timeout)

    return process(*(partial(waits, timeout=each) for each in timeouts))


def changer(*changes, after=0.0, **more):
    """A process that sets, clears, deletes, or looks, one after the other."""

    async def role(actor):
        await rests(actor, after)
        answered = []
        with errors(actor):
            for what in changes:
                await change(actor.port, EVENT, what, answered=answered)

    return process(role, **more)


def counter(times=1, spec=LATCH, **more):
    """A process that counts down."""
    return keeper(*(b"count_down",) * times, spec=spec, **more)


def keeper(*changes, spec=LATCH, **more):
    """A process that counts a latch down, resets or deletes it, one after the other."""

    async def counts(actor):
        for what in changes:
            await count_down(actor.client, spec, actor.world, what)

    return process(counts, **more)


def scenario(name, *roles, **more):
    return Scenario(name, roles, monitor=GateMonitor, **more)


SET = scenario("event: 1 waits, 1 sets", waiter(EVENT), changer(b"set"))
PULSE = scenario("event: 1 waits, 1 sets and clears", waiter(EVENT), changer(b"set", b"clear"))
PULSE_TWO = scenario(
    "event: 2 wait, 1 sets and clears", waiter(EVENT), waiter(EVENT), changer(b"set", b"clear")
)
PULSES = scenario(
    "event: 1 waits twice, 2 set and clear",
    waiter(EVENT, rounds=2),
    changer(b"set", b"clear"),
    changer(b"clear", b"set"),
    deep=True,
)
NEVER = scenario("event: 2 give up", waiter(EVENT, 1.0), waiter(EVENT, 2.5))
CLOSE = scenario("event: 1 gives up as 1 sets", waiter(EVENT, 1.0), changer(b"set", after=1.0))
OPENS = scenario("latch: 2 count down, 1 waits", counter(), counter(), waiter(LATCH))
HALF = scenario("latch: 1 counts down twice, 2 wait", counter(2), waiter(LATCH), waiter(LATCH))
LOOKS = scenario("event: 1 looks once, 1 sets", waiter(EVENT, 0.0), changer(b"set"))

FELLOWS = scenario(
    "event: 2 tasks of one process wait, 1 sets and clears",
    fellows(EVENT, PATIENCE, PATIENCE),
    changer(b"set", b"clear"),
    large=True,
)
QUITTERS = scenario(
    "event: 1 of 2 tasks gives up, 1 sets later",
    fellows(EVENT, 1.0, PATIENCE),
    changer(b"set", b"clear", after=1.5),
)

# A second act: what was changed is changed again.
AGAIN = scenario(
    "event: 1 waits twice, 1 sets, clears and sets",
    waiter(EVENT, rounds=2),
    changer(b"set", b"clear", b"set"),
)
FORGOTTEN = scenario(
    "event: 1 waits, 1 sets, deletes and sets", waiter(EVENT), changer(b"set", b"delete", b"set")
)
REMADE = scenario(
    "latch: 1 waits twice, 1 opens, resets and opens",
    waiter(LATCH, rounds=2),
    keeper(*(b"count_down",) * 2, b"reset", *(b"count_down",) * 2),
    large=True,
)
DELETED = scenario(
    "latch: 1 waits, 1 counts, deletes and opens",
    waiter(LATCH),
    keeper(b"count_down", b"delete", b"count_down", b"count_down"),
)
# Unlike actors: two who do not agree on the count.
UNLIKE = scenario(
    "latch: 1 counts to 2, 1 to 1, 1 waits",
    counter(),
    counter(spec=OTHER),
    waiter(LATCH, 1.0),
)
# Late repetitions: a client that asks a silent server for longer than the server is away.
LATE_COUNTS = scenario(
    "latch: 2 of 3 count down for 20 s",
    counter(spec=LARGE, server_timeout=20.0),
    counter(spec=LARGE, server_timeout=20.0),
)
LATE_SET = scenario(
    "event: 1 sets, 1 clears, for 20 s",
    changer(b"set", server_timeout=20.0),
    changer(b"clear", server_timeout=20.0),
)

FIRST = (SET, PULSE, PULSE_TWO, PULSES, NEVER, CLOSE, OPENS, HALF, LOOKS, FELLOWS, QUITTERS)
LATE = (LATE_COUNTS.under(lost=1, down=1), LATE_SET.under(lost=1, down=1))
ALL = (*FIRST, AGAIN, FORGOTTEN, REMADE, DELETED, UNLIKE)
FAULTS = (
    *("lost", "zombie", "cut", "silent", "late", "wake", "twice", "noise"),
    *("crash", "pause", "cancel", "restart", "reboot"),
)


def plan():
    """Every scenario, undisturbed and under each fault."""
    yield from ALL
    yield from LATE
    for each in ALL:
        yield from (each.under(**{fault: 1}) for fault in FAULTS)
