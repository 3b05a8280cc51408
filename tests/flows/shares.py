"""What is explored of semaphores and reader/writer locks: roles and scenarios."""

import contextlib
from dataclasses import dataclass

from fencelock._core.ask import ask
from fencelock._core.shares import ALL, RWLOCK, give_back, set_limit
from fencelock.errors import FencelockError
from fencelock.scripts import SHARES, SHARES_BREAK
from fencelock.testing.actors import GAVE_UP, KEYS
from fencelock.testing.shares import ShareActor, SharesMonitor
from fencelock.testing.simulation import World
from tests.flows.scenarios import FIXED, RENEWED, Role, Scenario


class Reader(ShareActor):
    """One user of a reader/writer lock."""

    kind = RWLOCK
    limit = ALL


@dataclass(frozen=True)
class Shared(Scenario):
    """A scenario whose world is one semaphore of two permits, or one reader/writer lock."""

    monitor: type[SharesMonitor] = SharesMonitor

    def world(self, server, traced):
        return World(
            server,
            budgets=self.budgets,
            symmetric=self.alike,
            push_first=self.push_first,
            traced=traced,
            monitor=self.monitor,
        )


def taker(terms=RENEWED, *, permits=1, patience=None, work=0.0, rounds=1, actor=ShareActor):
    """A process that takes permits, works and gives them back, some rounds."""

    async def turns(one):
        for _ in range(rounds):
            await one.hold_once(one.want_permits(terms, permits), patience, work)

    return single(turns, actor)


def reader(terms=RENEWED, **more):
    return taker(terms, actor=Reader, **more)


def writer(terms=RENEWED, **more):
    return taker(terms, actor=Reader, permits=ALL, **more)


def in_parts():
    """Takes both permits and gives them back one by one."""

    async def program(one):
        hold = await one.acquire(one.want_permits(RENEWED, 2), None)
        if hold is None:
            return
        try:
            hold.count = 1
            await give_back(one.port, hold, 1)
            await one.port.sleep(one.port.now() + 0.5)
        except FencelockError:
            if not one.world.faulty:
                raise
        finally:
            await one.release(hold)

    return single(program)


def downgrader():
    """Writes, takes the read side meanwhile, and releases the write side first."""

    async def program(one):
        write = await one.acquire(one.want_permits(RENEWED, ALL), None)
        if write is None:
            return
        read = None
        try:
            read = await one.acquire(one.want_permits(RENEWED, beside=write), 0.0)
        finally:
            try:
                await one.release(write)
            finally:
                if read is not None:
                    await one.release(read)

    return single(program, Reader)


def operator():
    """An operator who breaks the name once."""

    async def breaks(one):
        port = one.port
        try:
            await ask(
                port, SHARES_BREAK, KEYS.all, (b"why", 600_000, b""), port.now() + port.patience
            )
        except FencelockError:
            return

    return single(breaks)


def changer(limit):
    """One who changes the limit once."""

    async def changes(one):
        one.world.faulty = True  # who wants more than that is refused
        with contextlib.suppress(FencelockError):
            await set_limit(one.port, one.want_permits(RENEWED).form, limit)

    return single(changes)


def single(program, actor=ShareActor) -> Role:
    """A process with one task, which may be cancelled at any point."""

    async def whole(one):
        with contextlib.suppress(*GAVE_UP):
            await program(one)

    def role(scenario, world):
        client = world.client(shared=scenario.shared)
        world.start(client, whole(actor(world, client, scenario.flows)))

    return role


class Piecemeal(SharesMonitor):
    """Watches scripts that grant to one waiter each, and have the next one go on."""

    unserved_us_max_faultless = 100_000
    piecemeal = True


def one_at_a_time():
    """Return the scripts with that limit."""
    old, new = b"local GRANTS_MAX = 500", b"local GRANTS_MAX = 1"
    return {each.name: each.source.replace(old, new) for each in SHARES if old in each.source}


# -- a semaphore of two permits --------------------------------------------------------------------

THREE = Shared("3 for 2 permits", (taker(),) * 3, alike=True)
TWO = Shared("2 for both permits", (taker(permits=2),) * 2, alike=True)
MIXED = Shared("1, 2 and 1 of 2 permits", (taker(), taker(permits=2), taker()))
MIXED_TRY = Shared(
    "1 and 2 of 2 permits, 1 try", (taker(work=0.5), taker(permits=2), taker(patience=0.0))
)
DEAD_HEAD = Shared(
    "1 reader 1 s, 1 writer, 1 reader", (reader(work=1.0), writer(), reader(work=0.1))
)
PARTS = Shared("1 in parts, 1 for 1 permit", (in_parts(), taker()))
WORKING = Shared("3 working 1.5 s, 2 permits", (taker(work=1.5),) * 3, alike=True)
LONG = Shared("2 working 4 s with both permits", (taker(permits=2, work=4.0),) * 2, alike=True)
TOO_LONG = Shared(
    "2 working 4 s with both permits, fixed", (taker(FIXED, permits=2, work=4.0),) * 2, alike=True
)
ONE_ENDS = Shared(
    "1 fixed and 1 renewed for 4 s, 1 for 1 permit",
    (taker(FIXED, work=4.0), taker(work=4.0), taker()),
)
IMPATIENT = Shared(
    "2 working 1.5 s with both permits, giving up",
    (taker(permits=2, work=1.5, patience=1.5),) * 2,
    alike=True,
)
TRIES = Shared("3 tries for 2 permits", (taker(patience=0.0),) * 3, alike=True)
BROKEN = Shared("2 working 1.5 s, 1 operator", (taker(work=1.5), taker(permits=2), operator()))
CHANGED = Shared("2 for both permits, limit 2 to 3", (taker(), taker(permits=2), changer(3)))
LOWERED = Shared(
    "1 and 2 of 2 permits, limit 2 to 1", (taker(work=0.5), taker(permits=2), changer(1))
)

# -- a reader/writer lock --------------------------------------------------------------------------

SIDES = Shared("1 reader, 1 writer", (reader(), writer()))
READERS = Shared("2 readers, 1 writer", (reader(), reader(), writer()))
WRITERS = Shared("1 reader, 2 writers", (reader(), writer(), writer()))
WORKING_SIDES = Shared("2 readers, 1 writer, working 1.5 s", (*(reader(work=1.5),) * 2, writer()))
LONG_SIDES = Shared("1 reader 4 s, 1 writer 4 s", (reader(work=4.0), writer(work=4.0)))
TOO_LONG_SIDES = Shared(
    "1 reader 4 s, 1 writer 4 s, fixed", (reader(FIXED, work=4.0), writer(FIXED, work=4.0))
)
IMPATIENT_SIDES = Shared(
    "2 readers, 1 writer giving up",
    (reader(work=1.5), writer(work=1.0, patience=1.2), reader(work=0.5)),
)
DOWNGRADED = Shared("1 downgrading, 1 reader", (downgrader(), reader()))
DOWNGRADED_WRITER = Shared("1 downgrading, 1 writer", (downgrader(), writer()))
PIECEMEAL = Shared(
    "1 writer 1 s, 3 readers 1 s, granted one by one",
    (writer(work=1.0), *(reader(work=1.0),) * 3),
    sources=one_at_a_time(),
    monitor=Piecemeal,
)
