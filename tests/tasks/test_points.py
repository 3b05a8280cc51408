"""A cancellation at every suspension of a call, down to the connection that carries it (I6, I9).

It comes before what the call awaits is there, or when that is there and the call goes on next. What
other tasks do meanwhile is explored in tests/flows.
"""

import asyncio
import itertools

import pytest

import fencelock
from fencelock import Cohort, FencelockError
from fencelock._core.keys import SignalKeys
from tests import kinds
from tests.tasks.world import SOON, ends

pytestmark = pytest.mark.slow

MADE = kinds.MADE | {
    "strict": lambda client, **options: client.lock("a", cohort=None, **options),
    "bound": lambda client, **options: client.lock(
        "a", cohort=Cohort(turns=1, seconds=60), **options
    ),
    "kept": lambda client, **options: client.lock("a", linger=0.05, **options),
}
# The same lock, for a client that would have to wait for any holder.
RIVALS = MADE | {"read": MADE["write"], "multi": MADE["lock"]}


class At:
    """Awaits a call, whose task is cancelled at its n-th suspension.

    ``late``: when what the call awaits there is there.
    """

    def __init__(self, call, nth, *, late):
        self._call = call
        self._nth = nth
        self._late = late
        self.struck = False

    def __await__(self):
        inner = self._call.__await__()
        resume = _next(inner, None)
        for number in itertools.count(1):
            try:
                future = resume()
            except StopIteration as stop:
                return stop.value
            struck, error = number == self._nth, None
            self.struck = self.struck or struck
            try:
                if struck and not self._late:
                    asyncio.current_task().cancel()
                yield future
                if struck and self._late:
                    asyncio.current_task().cancel()
                    yield None  # where it is raised
            except BaseException as raised:  # noqa: BLE001 - whatever it is, it is for the call
                error = raised
            resume = _next(inner, error)


def _next(inner, error):
    return (lambda: inner.send(None)) if error is None else (lambda: inner.throw(error))


class Story:
    """One play: two clients, and what came at which suspension of a call of the first."""

    def __init__(self, world, nth, *, late):
        self.where = f"nothing is left of suspension {nth}, late: {late}"
        self.struck = False
        self.tasks = []
        self._nth = nth
        self._late = late
        self.prefix = f"{world.prefix}{nth}{late}:"
        self.client, self.other = self.clients = [
            fencelock.AsyncClient(world.server.url, key_prefix=self.prefix) for _ in range(2)
        ]

    async def strike(self, call):
        """Await a call in a task of its own, and cancel it at its suspension."""
        at = At(call, self._nth, late=self._late)

        async def struck():
            return await at

        task = asyncio.ensure_future(struck())
        await ends(task, lambda: self.where)
        self.struck = at.struck
        if not task.cancelled() and task.exception() is not None:
            assert isinstance(task.exception(), FencelockError), self.where

    def begin(self, call):
        """Have another task do something."""
        self.tasks.append(asyncio.ensure_future(call))

    async def end(self, world, handles):
        """See that nothing is left, also of what others began."""
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=SOON)
        assert all(each.done() for each in self.tasks), self.where
        for each in self.tasks:
            each.result()
        for handle in handles:
            async with asyncio.timeout(SOON):
                await turn(handle)
        ports = [each._port() for each in self.clients]
        await world.until(lambda: not any(port.renewals.holds for port in ports), self.where)
        await world.until(lambda: not any(port.lines.cohorts for port in ports), self.where)
        assert not any(len(port.lines) for port in ports), self.where
        for each in self.clients:
            await each.aclose()


async def turn(handle):
    async with handle:
        pass


async def every_point(world, tell, least=1):
    """Play a story until something came at each suspension of its call, early and late."""
    for late in (False, True):
        for nth in itertools.count(1):
            story = Story(world, nth, late=late)
            await story.end(world, await tell(story))
            if not story.struck:
                break
        assert nth > least, f"only {nth - 1} suspensions"


@pytest.mark.parametrize("kind", MADE)
async def test_cancelled_alone(world, kind):
    async def tell(story):
        handle = MADE[kind](story.client)
        await turn(handle)
        await story.strike(turn(handle))
        return MADE[kind](story.client), RIVALS[kind](story.other)

    await every_point(world, tell, least=kind != "kept")


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("own", [False, True], ids=["other client", "own client"])
async def test_cancelled_while_it_waits(world, kind, own):
    """The holder releases once the call is in line, or over."""

    async def tell(story):
        handle = MADE[kind](story.client)
        first = RIVALS[kind](story.client if own else story.other)
        await turn(handle)
        await hold_until_waited_for(story, world, first)
        await story.strike(turn(handle))
        story.over = True
        return MADE[kind](story.client), RIVALS[kind](story.other)

    await every_point(world, tell, least=kind != "kept")


async def hold_until_waited_for(story, world, first):
    """Have a task hold until a call of the first client waits, or is over."""
    held = asyncio.Event()
    story.over = False

    async def hold():
        async with first:
            held.set()
            lines = story.client._port().lines
            await world.until(lambda: story.over or len(lines) or lines.crowded)

    story.begin(hold())
    await held.wait()


WAITS = {
    "event": lambda client: client.event("b").wait(),
    "latch": lambda client: client.latch("b", 1).wait(),
    "barrier": lambda client: client.barrier("b", 2).wait(),
}


ENDS = {
    "event": lambda client: client.event("b").set(),
    "latch": lambda client: client.latch("b", 1).count_down(),
    "barrier": lambda client: client.barrier("b", 2).reset(),
}


@pytest.mark.parametrize("kind", WAITS)
async def test_a_wait_for_a_state_is_cancelled(world, kind):
    """It ends at the latest after a while: others end what it waits for. It leaves the list."""

    async def tell(story):
        watch = SignalKeys(story.prefix, "b").watch[1]
        ended = asyncio.get_running_loop().call_later(
            0.05, lambda: story.begin(ENDS[kind](story.other))
        )
        await story.strike(WAITS[kind](story.client))
        ended.cancel()
        await world.until(lambda: not world.server.command("ZCARD", watch), story.where)
        return story.client.lock("a"), story.other.lock("a")

    await every_point(world, tell, least=kind != "kept")
