"""What is explored of barriers: who comes, who aborts, who runs an action."""

from dataclasses import replace

from fencelock._core.keys import SignalKeys
from fencelock._core.objects.barrier import change
from fencelock._core.objects.state_wait import StateSpec
from tests.flows.worlds.locks import Scenario, process, rests
from tests.flows.worlds.runs_once import errors
from tests.flows.worlds.signals import FAULTS, fellows
from verification.simulator.barriers import CrossingMonitor

KEYS = SignalKeys("", "barrier")
TWO = StateSpec(KEYS, b"barrier", 60.0, 2)
THREE = StateSpec(KEYS, b"barrier", 60.0, 3)
FOUR = StateSpec(KEYS, b"barrier", 60.0, 4)
ALONE_ACTING = StateSpec(KEYS, b"barrier", 60.0, 1, acts=True)
ACTING = StateSpec(KEYS, b"barrier", 60.0, 2, acts=True)
# Longer than a dead party is waited for.
PATIENCE = 12.0


def party(spec=TWO, timeout=PATIENCE, rounds=1, after=0.0, server_timeout=5.0):
    """A process that waits at the barrier."""

    async def waits(actor):
        await rests(actor, after)
        for _ in range(rounds):
            if await actor.world.monitor.waits(actor.client, spec, timeout) != "passed":
                return

    return process(waits, server_timeout=server_timeout)


def operator(*changes, after=0.0):
    """A process that aborts, resets, deletes or looks."""

    async def acts(actor):
        await rests(actor, after)
        with errors(actor):
            for what in changes:
                await change(actor.port, TWO, what)

    return process(acts)


def scenario(name, *roles, **more):
    return Scenario(name, roles, monitor=CrossingMonitor, **more)


PAIR = scenario("barrier: 2 parties", party(), party(), alike=True)
ROUNDS = scenario("barrier: 2 parties, 2 rounds", party(rounds=2), party(rounds=2), alike=True)
TRIO = scenario("barrier: 3 parties", *(party(THREE),) * 3, alike=True)
CROWD = scenario("barrier: 2 parties, 3 come", *(party(timeout=1.5),) * 3, alike=True)
ALONE = scenario("barrier: 1 comes, gives up", party(timeout=1.0))
LATE = scenario("barrier: 1 gives up as another comes", party(timeout=1.0), party(after=1.0))
ACTS = scenario("barrier: 2 parties with an action", party(ACTING), party(ACTING), alike=True)
FULL = scenario("barrier: 3 come, with an action", *(party(ACTING, timeout=1.5),) * 3, alike=True)
ABORTED = scenario("barrier: 2 parties, 1 aborts", party(), party(), operator(b"abort"))
RESET = scenario("barrier: 2 parties, 1 resets", party(timeout=3.0), party(), operator(b"reset"))

FELLOWS = scenario(
    "barrier: 2 tasks of one process, 1 other", fellows(THREE, PATIENCE, PATIENCE), party(THREE)
)

WIDOW = scenario("barrier: 2 of 3 parties", party(THREE), party(THREE), alike=True, large=True)
HASTY = scenario("barrier: 2 parties, 1 gives up in round 2", party(), party(timeout=1, rounds=2))

# All live, and the server is away for longer than a dead party would be waited for.
OUTAGE = scenario(
    "barrier: 3 parties that ask for 20 s, 1 later",
    party(THREE, 20.0, server_timeout=20.0),
    party(THREE, 20.0, server_timeout=20.0),
    party(THREE, 20.0, after=5.5, server_timeout=20.0),
)


class LongAction(CrossingMonitor):
    """Checks a barrier whose action outlasts what a dead party is waited for."""

    action_seconds = 12.0
    kept_seconds = 86_401.0  # an action may take a day: until then its keys stay


LONG = replace(
    scenario(
        "barrier: 1 of 2 acts for 12 s",
        *(party(ACTING, 20.0, server_timeout=20.0),) * 2,
        alike=True,
        large=True,
    ),
    monitor=LongAction,
)
UNWATCHED = replace(
    scenario("barrier: 1 alone acts for 12 s", party(ALONE_ACTING, 20.0)), monitor=LongAction
)
# A second act: the barrier is used again after it broke, or after it was deleted.
RESET_AGAIN = scenario(
    "barrier: 1 gives up, 1 resets, 2 come",
    party(timeout=0.5),
    operator(b"reset", after=1.0),
    party(after=2.0),
    party(after=2.0),
)
DELETED = scenario(
    "barrier: 2 come, 1 deletes, 2 come",
    party(timeout=1.5),
    operator(b"delete"),
    party(after=3.0),
    party(after=3.0),
)
MANY = scenario(
    "barrier: 3 tasks of one process, 1 comes after 9 s",
    fellows(FOUR, *(PATIENCE,) * 3),
    party(FOUR, after=9.0),
)

SECOND = (RESET_AGAIN, DELETED)
AWAY = (OUTAGE.under(down=1), LONG.under(down=1))
ALL = (
    *SECOND,
    OUTAGE,
    LONG,
    UNWATCHED,
    FELLOWS,
    WIDOW,
    HASTY,
    PAIR,
    ROUNDS,
    TRIO,
    CROWD,
    ALONE,
    LATE,
    ACTS,
    FULL,
    ABORTED,
    RESET,
)


def plan():
    """Every scenario, undisturbed and under each fault."""
    yield from ALL
    yield from AWAY
    for each in ALL:
        yield from (each.under(**{fault: 1}) for fault in FAULTS)
