"""What is explored of locks in Redisson's layout: our clients beside threads of Java programs."""

from dataclasses import dataclass, field
from functools import partial

from tests.flows.worlds.locks import FIXED, Role, Scenario, user
from verification.simulator.monitor import Monitor
from verification.simulator.redisson import (
    FENCED,
    SOURCES,
    JavaThread,
    RedissonActor,
    RedissonMonitor,
)


@dataclass(frozen=True)
class Beside(Scenario):
    """A scenario whose world is one lock in Redisson's layout."""

    monitor: type[Monitor] = RedissonMonitor
    sources: dict[str, bytes] = field(default_factory=lambda: dict(SOURCES))


class FencedActor(RedissonActor):
    """One user of an RFencedLock."""

    keys = FENCED


ours = partial(user, actor=RedissonActor)


def java(*, work=0.0) -> Role:
    """A Java program with one thread, which locks once."""

    def role(scenario, world):
        client = world.client(shared=True)
        world.start(client, JavaThread(world, client).turn(work))

    return role


TWO = Beside("two of ours", (ours(), ours()), alike=True)
ONE_EACH = Beside("one of ours beside Java", (ours(work=1.0), java(work=1.0)))
IMPATIENT = Beside("one in a hurry beside Java", (ours(timeout=0.5), java(work=1.0)))
TRIES = Beside("one that tries beside Java", (ours(timeout=0.0), java()))
LONG = Beside("longer than a lease, beside Java", (ours(work=4.0), java(work=1.0)))
FIXED_LONG = Beside("longer than a lease that is not renewed", (ours(FIXED, work=4.0), java()))
FELLOWS = Beside("two tasks of one client beside Java", (ours(tasks=2), java()), large=True)
TWICE = Beside("two of ours, twice each", (ours(rounds=2, work=0.5), ours(rounds=2, work=0.5)))
TOKENS = Beside("two that need a token", (ours(actor=FencedActor), ours(actor=FencedActor)))
