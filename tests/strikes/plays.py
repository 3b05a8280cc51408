"""One play of a story that is struck once, and the judge of all plays.

A story is an ``async def``, of a play: it makes what it needs of the play's two clients, has one
call struck, and returns the handles that must get the lock afterwards. Then nothing is left: no
key, waiter, lease, thread, task or connection (tests/conformance/leftovers.py), and nobody was told
of a loss (I6, I8 to I10).
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from fencelock import FencelockError
from tests.conformance.world import Straight, World, straight
from tests.strikes.strikes import Strike, signals, suspensions
from tests.threads.state import lease_threads
from tests.waiting import SOON, until

STRIKES = {"threads": signals, "asyncio": suspensions}
# So many points, or suspensions, at least: else nothing is watched.
LEAST = {"threads": 10, "asyncio": 2}
Story = Callable[["Play"], Awaitable[Sequence[Any]]]


class Play(World):
    """One play: a client that is struck, another one, and who runs beside them."""

    def __init__(self, face: str, server: Any, strike: Strike) -> None:
        super().__init__(face, server)
        self.mine, self.theirs = self.client(), self.client()
        self.of_strike = strike
        self.over = False  # what is struck has ended
        self.held = False  # by one beside it
        self.told: list[object] = []
        self._looks = 0

    def judge(self, story: Story) -> None:
        """Play, see that everybody gets the lock, and that nothing is left."""
        whole = self._judged(story)
        straight(whole) if self.blocking else asyncio.run(whole)

    async def _judged(self, story: Story) -> None:
        try:
            for handle in await story(self):
                await taken(handle)
            await self.until(lambda: not self.waiting(), "nobody stands in line")
            assert not self.told, "somebody was told of a loss"
            self.check_keys()
            await self._keeps_nothing(closed=False)
        finally:
            await self._end()

    def _kept_by(self, client: Any, *, closed: bool) -> list[str]:
        """Return what a client keeps, but for what its next wait, or its end, sees to."""
        kept = super()._kept_by(client, closed=closed)
        self._looks += 1
        if self._looks % 50 == 0:
            gc.collect()  # a connection that was being given back
        return [each for each in kept if not each.startswith(("waits: ", "CleanupQueue"))]

    async def strike(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Have a call struck; return what it returns, unless it ended otherwise."""
        try:
            return await self.of_strike.over(call)
        except (KeyboardInterrupt, asyncio.CancelledError, FencelockError):
            return None
        finally:
            self.over = True

    async def hold(self, handle: Any, until: Callable[[], Any] = lambda: True) -> None:
        """Hold beside what is struck, until that is over or something is true."""

        async def held() -> None:
            self.held = True
            await self.until(lambda: self.over or until(), "the other is over")

        await turn(handle, held)


async def turn(handle: Any, body: Callable[[], Awaitable[Any]] | None = None) -> None:
    """Enter a handle by the statement of its face, or call what is decorated."""
    if not hasattr(handle, "inner") and callable(handle):
        await handle()
    elif isinstance(handle, Straight):
        with handle.inner:
            await body() if body else None
    else:
        async with handle:
            await body() if body else None


async def taken(handle: Any) -> None:
    """Take what a handle is for and give it back, within a while."""
    if hasattr(handle, "campaign"):
        assert await handle.campaign(timeout=SOON)
        await handle.resign()
    elif hasattr(handle, "acquire"):
        assert handle.lease is None or handle.lease.lost
        assert await handle.acquire(timeout=SOON)
        await handle.release()
    else:
        await turn(handle)


def at_every_point(face: str, server: Any, story: Story, *, local: bool = False) -> None:
    """Play a story until it was struck at each of its points.

    ``local``: it sends nothing, so a task has no suspension in it.
    """
    struck = 0
    for strike in STRIKES[face]():
        try:
            Play(face, server, strike).judge(story)
        except BaseException as error:
            error.add_note(f"struck at {strike.where}")
            raise
        struck += bool(strike.where)
    assert struck >= LEAST[face] or (local and face == "asyncio"), "a story with fewer points"
    gc.collect()  # a connection, of which an interrupt came as it was given back
    until(lambda: " name=fencelock " not in server.command("CLIENT", "LIST"), "all are closed")
    until(lambda: not lease_threads(), "all threads have ended")
