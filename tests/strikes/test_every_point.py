"""Ctrl-C at every point, a cancellation at every suspension: nothing is left, all get turns (I9).

Each test is a call that is struck, by threads and by asyncio. What other tasks do meanwhile is
explored in tests/flows.
"""

import itertools
from functools import partial

import pytest

from fencelock._core.keys import SignalKeys
from fencelock._core.quorum.acquire import QuorumAttempt
from fencelock._io.bounded_call import within
from fencelock._io.connection_blocking import Connection
from fencelock._runtime.clock import now
from tests.kinds import ENDS, HELD, MADE, RIVALS, WAITS
from tests.strikes.plays import STRIKES, at_every_point, turn
from tests.waiting import SOON

pytestmark = [
    pytest.mark.slow,
    # A strike at the first instruction of a call: the flow was made and never begun.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    # Handles with a timeout for their blocks are acquired here, too.
    pytest.mark.filterwarnings("ignore:.* limits its with block:UserWarning"),
    # A strike inside a finalizer is reported, and goes no further.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


async def nothing():
    """Be what is decorated."""


KINDS = HELD | {"locked": lambda client, **options: client.locked("a", **options)(nothing)}
LIMITS = (None, 0.002)
faces = pytest.mark.parametrize("face", STRIKES)


async def warmed(play, kind, **options):
    """Return a handle whose client is connected; of a lease that is kept, whose client has it."""
    handle = KINDS[kind](play.mine, on_lost=play.told.append, **options)
    await turn(KINDS[kind](play.mine))
    while kind == "kept" and play.holder("a") is None:  # at first it hears no recalls
        await turn(handle)
    return handle


def all_of(play, kind, handle):
    """Return what must get the lock afterwards."""
    return handle, RIVALS.get(kind, MADE["lock"])(play.theirs)


async def alone(play, kind):
    handle = await warmed(play, kind)
    await play.strike(turn(handle))
    return all_of(play, kind, handle)


@faces
@pytest.mark.parametrize(
    "kind",
    [pytest.param("multi", marks=pytest.mark.daily), *(each for each in KINDS if each != "multi")],
)
@pytest.mark.refcounts
def test_a_turn_that_is_struck_leaves_nothing(server, face, kind):
    """No lease that its handle does not know of: each outcome is kept before it is handed on.

    As found: permits were taken out of a semaphore, and the flow to give them back had not got
    them yet.
    """
    at_every_point(face, server, partial(alone, kind=kind), local=kind == "kept")


@faces
def test_a_first_acquire_that_is_struck_leaves_nothing(server, face):
    """While it connects and starts its thread too."""

    async def first(play):
        handle = play.mine.lock("a")
        await play.strike(turn(handle))
        return all_of(play, "lock", handle)

    at_every_point(face, server, first)


@faces
@pytest.mark.parametrize("kind", ["lock", "semaphore", "read"])
def test_a_turn_that_is_struck_while_replicas_acknowledge(master, face, kind):
    """A grant that was struck before its acknowledgement is undone as any other."""
    at_every_point(face, master, partial(alone, kind=kind))


@faces
def test_a_turn_that_is_struck_leaves_nothing_on_any_node_of_a_quorum(nodes, face):
    """A majority would be granted all the same, so each node is looked at."""
    at_every_point(face, nodes, partial(on_nodes, partial(alone, kind="lock")))


async def on_nodes(story, play):
    """Play a story; fail if a node of a quorum still has the lock."""
    handles = await story(play)
    for node in play.server.nodes:
        await play.until(lambda: not node.command("EXISTS", play.key("a")))  # noqa: B023 - at once
    return handles


async def in_line(play, kind, *, own, timeout):
    """It waits behind a holder, and if that lets go before another of its client."""
    handle = await warmed(play, kind, timeout=timeout)
    holder = RIVALS.get(kind, MADE["lock"])(play.mine if own else play.theirs)
    holds = play.start(play.hold(holder, lambda: timeout is None and play.waiting() > 1))
    await play.until(lambda: holds.done or play.held, "it holds")
    behind = play.start(nothing() if timeout else comes_behind(play, KINDS[kind](play.mine)))
    await play.strike(turn(handle))
    for each in (holds, behind):
        await each.result()
    return all_of(play, kind, handle)


async def comes_behind(play, handle):
    await play.until(lambda: play.over or play.waiting())
    await turn(handle)


# By threads, in which a wait has very many points, those that say something else.
LINES = [
    *(("threads", kind, False, timeout) for kind in ("lock", "semaphore") for timeout in LIMITS),
    *(("threads", kind, True, None) for kind in ("turns", "bound", "kept")),
    *itertools.product(
        ["asyncio"], [each for each in KINDS if each != "poll"], (False, True), LIMITS
    ),
]


@pytest.mark.parametrize(("face", "kind", "own", "timeout"), LINES, ids=str)
def test_a_wait_in_line_that_is_struck(server, face, kind, own, timeout):
    """Wherever the grant is then: with the server, on its way, in the waiter, or at a neighbour."""
    story = partial(in_line, kind=kind, own=own, timeout=timeout)
    at_every_point(face, server, story, local=timeout is not None)  # it may be over at once


@faces
@pytest.mark.parametrize("how", ["with", "acquire"])
@pytest.mark.parametrize("options", [{}, {"renew": False}], ids=["renewed", "fixed"])
@pytest.mark.parametrize("kind", ["rlock", "write", "read"])
def test_an_inner_entry_that_is_struck_leaves_the_outer_one(server, face, kind, options, how):
    """As found: its count stayed too high, so the outer end released nothing."""

    async def outer(play):
        again = {"reentrant": True} if kind == "write" else {}
        handle = MADE[kind](play.mine, on_lost=play.told.append, **options, **again)

        async def inner():
            if how == "with":
                await play.strike(turn(handle))
            elif await play.strike(handle.acquire()):
                await handle.release()
            assert handle.lease.remaining() > 0

        await turn(handle, inner)
        return all_of(play, kind, handle)

    at_every_point(face, server, outer, local=not options)


@faces
@pytest.mark.parametrize("how", ["with", "campaign"])
@pytest.mark.parametrize("leads", [False, True], ids=["elected", "joins"])
def test_a_campaign_that_is_struck(server, face, leads, how):
    """As found: it led for ever, unknown to its program, or could never campaign again."""

    async def story(play):
        election, elected = play.mine.election("a"), []

        async def campaigns():
            call = turn(election) if how == "with" else election.campaign()
            elected.append(await play.strike(call))
            assert not leads or election.is_leader

        await (turn(election, campaigns) if leads else campaigns())
        if elected == [True] and election.is_leader:
            await election.resign()  # the body's end is not its own
        assert not election.is_leader
        return election, play.theirs.election("a")

    at_every_point(face, server, story, local=leads)


@faces
@pytest.mark.parametrize("timeout", LIMITS, ids=["ended", "timed out"])
@pytest.mark.parametrize("kind", WAITS)
def test_a_wait_for_a_state_that_is_struck(server, face, kind, timeout):
    """I10: a client that waits no more has no thread, and closes at once. It leaves the list."""

    async def story(play):
        watch = SignalKeys(play.prefix, "a").watch[1]

        async def ends():
            await play.until(lambda: play.over or server.command("ZCARD", watch))
            await ENDS[kind](play.theirs)

        ended = play.start(ends() if timeout is None else nothing())
        await play.strike(WAITS[kind](play.mine, timeout))
        await ended.result()
        await play.until(lambda: not server.command("ZCARD", watch), "nobody is on the list")
        return ()

    at_every_point(face, server, story)


@faces
def test_changes_that_are_struck_leave_the_connection_sound(server, face):
    async def watches(election):
        async for _ in election.changes(timeout=0.002):
            pass

    async def story(play):
        await play.strike(watches(play.mine.election("a")))
        return play.mine.election("a"), play.theirs.election("a")

    at_every_point(face, server, story)


@faces
def test_a_renewal_that_is_struck_shortens_nothing(server, face):
    """The lease stays what it was, or is longer; it is never forgotten."""

    async def story(play):
        handle = await warmed(play, "lock", ttl=5)

        async def renewed():
            end = handle.lease.deadline
            await play.strike(handle.lease.renew())
            assert handle.lease.deadline >= end
            handle.lease.check()

        await turn(handle, renewed)
        return all_of(play, "lock", handle)

    at_every_point(face, server, story)


def undone(monkeypatch, owner, name):
    """A story whose first strike comes as a method returns, and whose second meets the undo."""
    method = getattr(owner, name)

    async def story(play):
        handle, first = await warmed(play, "lock"), iter([True])

        def interrupted(*args):
            answer = method(*args)
            if next(first, False):
                play.of_strike.__enter__()
                raise KeyboardInterrupt
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, interrupted)
            try:
                await turn(handle)
            except KeyboardInterrupt:
                play.of_strike.__exit__()
        return all_of(play, "lock", handle)

    return story


def test_a_second_ctrl_c_in_the_undo_leaves_nothing_on_any_node_of_a_quorum(nodes, monkeypatch):
    """The first one comes when all nodes have granted."""
    story = undone(monkeypatch, QuorumAttempt, "count")
    at_every_point("threads", nodes, partial(on_nodes, story))


def test_a_second_ctrl_c_in_the_undo_leaves_nothing(server, monkeypatch):
    """The first one comes when the lock is granted, before a hold has it."""
    at_every_point("threads", server, undone(monkeypatch, Connection, "run"))


@pytest.mark.parametrize("dispose", [None, id], ids=["shared", "own"])
def test_ctrl_c_in_work_that_knows_no_deadline(server, dispose):
    """As found: a name that no thread looked up was waited for ever after by all callers."""

    async def story(play):
        async def asked():
            return within(now() + SOON, play.prefix, object, name="asked", dispose=dispose)

        await play.strike(asked())
        assert await asked() is not None
        return ()

    at_every_point("threads", server, story)
