"""What is explored of semaphores and reader/writer locks: roles and scenarios."""

import contextlib
from dataclasses import dataclass

from fencelock import scripts
from fencelock._core.lock.renew import renew_now
from fencelock._core.objects.semaphore_rwlock import ALL, RWLOCK, release_part, set_limit
from fencelock.errors import FencelockError, LeaseLost
from fencelock.options import LeaseOptions
from fencelock.scripts import SHARES_BREAK
from tests.flows.worlds.locks import FIXED, RENEWED, Scenario, process
from verification.simulator.actors import KEYS
from verification.simulator.monitor import Violation
from verification.simulator.shares import ShareActor, SharesMonitor, read

# Actors that are not alike: another ttl, with and without renewal.
SHORT = LeaseOptions(ttl=2.5, renew=True)
LONGER = LeaseOptions(ttl=4.0, renew=True)
SHORT_FIXED = LeaseOptions(ttl=1.0, renew=False)


class Reader(ShareActor):
    """One user of a reader/writer lock."""

    kind = RWLOCK
    limit = ALL


@dataclass(frozen=True)
class Shared(Scenario):
    """A scenario whose world is one semaphore of two permits, or one reader/writer lock."""

    monitor: type[SharesMonitor] = SharesMonitor


def taker(options=RENEWED, *, permits=1, timeout=None, work=0.0, rounds=1, actor=ShareActor):
    """A process that takes permits, works and gives them back, some rounds."""

    async def turns(one):
        for _ in range(rounds):
            await one.hold_once(one.request_permits(options, permits), timeout, work)

    return process(turns, actor=actor)


def reader(options=RENEWED, **more):
    return taker(options, actor=Reader, **more)


def writer(options=RENEWED, **more):
    return taker(options, actor=Reader, permits=ALL, **more)


def in_parts():
    """Takes both permits and gives them back one by one."""

    async def program(one, hold):
        hold.count = 1
        await release_part(one.port, hold, 1)
        await one.port.sleep(one.port.now() + 0.5)

    return holder(program, permits=2)


def downgrader(*, write_options=RENEWED, read_terms=RENEWED, work=0.0):
    """Writes, takes the read side meanwhile, releases the write side first, and reads on."""

    async def program(one):
        write = await one.acquire(one.request_permits(write_options, ALL), None)
        if write is None:
            return
        read = None
        try:
            read = await read_beside(one, write, read_terms)
        finally:
            try:
                await one.release(write)
                if read is not None and work:
                    await one.port.sleep(one.port.now() + work)
            finally:
                if read is not None:
                    await one.release(read)

    return process(program, actor=Reader)


async def read_beside(one, write, options=RENEWED):
    """Take the read side beside the own write side: only a fault may refuse it."""
    try:
        read = await one.acquire(one.request_permits(options, nested_under=write), 0.0)
    except LeaseLost as loss:
        if not one.world.faulty:
            raise Violation("I8", f"without any fault: {loss}") from loss
        return None
    if read is None and not one.world.faulty:
        raise Violation("I8", "a writer may not read beside its own hold")
    return read


def operator():
    """An operator who breaks the name once."""

    async def breaks(one):
        with contextlib.suppress(FencelockError):
            await break_permits(one)

    return process(breaks)


async def break_permits(one):
    """Break the name, as an operator does."""
    port = one.port
    args = (b"why", 600_000, b"", port.new_id())
    await port.ask(SHARES_BREAK, KEYS.all, args, port.now() + port.server_timeout)


class NamesThree(ShareActor):
    """One user of a semaphore who names another limit than the others do."""

    limit = 3


def changer(limit):
    """One who changes the limit once."""

    async def changes(one):
        one.world.faulty = True  # who wants more than that is refused
        with contextlib.suppress(FencelockError):
            await set_limit(one.port, one.request_permits(RENEWED).terms, limit)

    return process(changes, actor=ShareActor)


def changer_and_user(*limits):
    """Changes the limit to 3 and then further, while it holds; its handles go on naming 3."""

    async def program(one, hold):
        names_three = NamesThree(one.world, one.client, one.flows)
        for limit in (3, *limits):
            await set_limit(one.port, hold.terms, limit)
            await names_three.hold_once(names_three.request_permits(RENEWED), None, 0.1)

    return holder(program)


def sets(*limits):
    """Changes the limit some times while it holds, and sees that the last one stays in force."""

    async def program(one, hold):
        for limit in limits:
            await set_limit(one.port, hold.terms, limit)
        await one.port.sleep(one.port.now() + 0.1)
        found = read(one.world.server.state).limit
        forgets = not one.world.budgets.keys().isdisjoint({"restart", "reboot"})
        if found != limits[-1] and not forgets:
            raise Violation("I4", f"the limit is {found}, and {limits[-1]} was set last")

    return holder(program)


def renewer(*ttls, options=FIXED, permits=1, actor=ShareActor):
    """Acquires, and renews the lease by hand for longer and shorter: a second act after each."""

    async def program(one, hold):
        for ttl in ttls:
            await one.port.sleep(one.port.now() + 0.5)
            await renew_now(one.port, hold, ttl)
        await one.port.sleep(one.port.now() + 0.5)

    return holder(program, options, permits=permits, actor=actor)


def holder(program, options=RENEWED, *, permits=1, actor=ShareActor):
    """A process whose program runs while it holds: only a fault may refuse what it does."""

    async def holds(one):
        hold = await one.acquire(one.request_permits(options, permits), None)
        if hold is None:
            return
        try:
            await program(one, hold)
        except FencelockError:
            if not one.world.faulty:
                raise
        finally:
            await one.release(hold)

    return process(holds, actor=actor)


class Piecemeal(SharesMonitor):
    """Watches scripts that grant to one waiter each, and have the next one go on."""

    unserved_us_max_faultless = 100_000
    piecemeal = True


def one_at_a_time():
    """Return the scripts with that limit."""
    old, new = b"local GRANTS_MAX = 500", b"local GRANTS_MAX = 1"
    files = [each for each in scripts.ALL if each.path.startswith("shares/")]
    return {each.name: each.source.replace(old, new) for each in files if old in each.source}


# -- a semaphore of two permits --------------------------------------------------------------------

THREE = Shared("3 for 2 permits", (taker(),) * 3, alike=True)
TWO = Shared("2 for both permits", (taker(permits=2),) * 2, alike=True)
MIXED = Shared("1, 2 and 1 of 2 permits", (taker(), taker(permits=2), taker()), large=True)
MIXED_TRY = Shared(
    "1 and 2 of 2 permits, 1 try", (taker(work=0.5), taker(permits=2), taker(timeout=0.0))
)
DEAD_HEAD = Shared(
    "1 reader 1 s, 1 writer, 1 reader", (reader(work=1.0), writer(), reader(work=0.1))
)
PARTS = Shared("1 in parts, 1 for 1 permit", (in_parts(), taker()), large=True)
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
    (taker(permits=2, work=1.5, timeout=1.5),) * 2,
    alike=True,
)
TRIES = Shared("3 tries for 2 permits", (taker(timeout=0.0),) * 3, alike=True)
BROKEN = Shared("2 working 1.5 s, 1 operator", (taker(work=1.5), taker(permits=2), operator()))
CHANGED = Shared(
    "2 for both permits, limit 2 to 3", (taker(), taker(permits=2), changer(3)), large=True
)
LOWERED = Shared(
    "1 and 2 of 2 permits, limit 2 to 1", (taker(work=0.5), taker(permits=2), changer(1))
)
CHANGED_TWICE = Shared(
    "1 for both permits, limit 2 to 3 to 4, 1 names 3", (taker(permits=2), changer_and_user(4))
)
CHANGED_DOWN = Shared(
    "1 for 1 permit, limit 2 to 3 to 2, 1 names 3", (taker(work=0.5), changer_and_user(2))
)
SET_TWICE = Shared("1 sets the limit to 3 and to 4", (sets(3, 4), taker()), large=True)
UNLIKE = Shared(
    "1 fixed 4 s, 2 permits for 2.5 s and 1 for 4 s, 2 rounds",
    (
        taker(FIXED, work=0.5, rounds=2),
        taker(SHORT, permits=2, rounds=2),
        taker(LONGER, work=1.0),
    ),
    large=True,
)
UNLIKE_BESIDE = Shared(
    "1 fixed 1 s and 1 for 4 s, of 2 permits",
    (taker(SHORT_FIXED, work=0.5), taker(LONGER, work=2.0)),
)
TWO_ROUNDS = Shared("2 for both permits, 2 rounds", (taker(permits=2, rounds=2),) * 2, alike=True)
BY_HAND = Shared("1 renewing by hand, longer", (renewer(4.0, 5.0, permits=2), taker()))
BY_HAND_SHORTER = Shared("1 renewing by hand, shorter", (renewer(4.0, 2.0, permits=2), taker()))
BY_HAND_RENEWED = Shared(
    "1 renewing by hand and by itself", (renewer(4.0, 2.0, options=RENEWED, permits=2), taker())
)

# -- a reader/writer lock --------------------------------------------------------------------------

SIDES = Shared("1 reader, 1 writer", (reader(), writer()), large=True)
READERS = Shared("2 readers, 1 writer", (reader(), reader(), writer()))
WRITERS = Shared("1 reader, 2 writers", (reader(), writer(), writer()))
WORKING_SIDES = Shared("2 readers, 1 writer, working 1.5 s", (*(reader(work=1.5),) * 2, writer()))
LONG_SIDES = Shared("1 reader 4 s, 1 writer 4 s", (reader(work=4.0), writer(work=4.0)))
TOO_LONG_SIDES = Shared(
    "1 reader 4 s, 1 writer 4 s, fixed", (reader(FIXED, work=4.0), writer(FIXED, work=4.0))
)
IMPATIENT_SIDES = Shared(
    "2 readers, 1 writer giving up",
    (reader(work=1.5), writer(work=1.0, timeout=1.2), reader(work=0.5)),
)
DOWNGRADED = Shared("1 downgrading, 1 reader", (downgrader(), reader()), large=True)
DOWNGRADED_WRITER = Shared("1 downgrading, 1 writer", (downgrader(), writer()))
DOWNGRADED_UNLIKE = Shared(
    "1 downgrading to a longer lease, 1 writer, 1 reader",
    (downgrader(write_options=SHORT, read_terms=LONGER, work=1.0), writer(SHORT_FIXED), reader()),
    large=True,
)
# A reader holds, a writer waits at the head and a reader behind it: whose connection is lost while
# it waits keeps its place.
IN_LINE = Shared(
    "1 reader 1.5 s, 1 writer and 1 reader in line",
    (reader(work=1.5), writer(), reader(work=0.1)),
    large=True,
)
UNLIKE_SIDES = Shared(
    "1 reader fixed 1 s twice, 1 writer for 2.5 s twice",
    (reader(SHORT_FIXED, work=0.5, rounds=2), writer(SHORT, work=0.5, rounds=2)),
)
BY_HAND_SIDES = Shared(
    "1 writer renewing by hand, 1 reader",
    (renewer(4.0, 2.0, permits=ALL, actor=Reader), reader()),
)
PIECEMEAL = Shared(
    "1 writer 1 s, 3 readers 1 s, granted one by one",
    (writer(work=1.0), *(reader(work=1.0),) * 3),
    sources=one_at_a_time(),
    monitor=Piecemeal,
)
