"""The asyncio port: one multiplexed connection per server and loop.

Rules of this file:

- Everything runs in one loop's thread, so the mutex is free.
- A cancelled caller leaves its slot in the connection; its undo goes out at once, behind the
  request, before the cancellation goes on: a loop that closes right after cannot lose it.
- No task exists while nothing is to be done: leases are minded by one timer.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import secrets
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fencelock._core.ask import ask
from fencelock._core.hold import Hold
from fencelock._core.port import Args, Broken, Keys, Reply
from fencelock._core.renew import RenewalBook, attend, lose
from fencelock._core.waiters import Lines, Waiter
from fencelock._ports import fork
from fencelock._transport.mux import Mux
from fencelock._transport.mux_dial import dial
from fencelock._transport.source import Source
from fencelock._transport.wire import ReplyError, pack_source
from fencelock.clock import now
from fencelock.errors import FencelockError, ServerUnreachable
from fencelock.scripts import Script

log = logging.getLogger("fencelock")

POST_SECONDS = 30.0  # as in posts.py
CLOSE_SECONDS = 1.0
_NO_LOCK: AbstractContextManager[Any] = nullcontext()


class AioPort:
    """Implements ``_core.port.Port`` for the tasks of one event loop."""

    def __init__(self, source: Source, *, home: str, patience: float) -> None:
        self.source = source
        self.patience = patience
        self.loop = asyncio.get_running_loop()
        self.home = f"{home}@{secrets.token_hex(8)}".encode()
        self.lines = Lines()
        self.book = RenewalBook()
        self.closed = False
        self._mux: Mux | None = None
        self._dialling: asyncio.Task[Mux] | None = None
        self._listening = False
        self._reached = False
        self._waiters: dict[bytes, Waiter] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        fork.watch(self)

    # -- clock, ids, tables ---------------------------------------------------------------------

    now = staticmethod(now)
    jitter = staticmethod(random.random)

    def new_id(self) -> bytes:
        """Return 128 random bits as 22 characters."""
        return secrets.token_urlsafe(16).encode()

    def mutex(self) -> AbstractContextManager[Any]:
        """Guard nothing: one thread runs all of this."""
        return _NO_LOCK

    async def sleep(self, until: float) -> None:
        """Sleep until an instant."""
        await asyncio.sleep(max(0.0, until - now()))

    # -- calls ----------------------------------------------------------------------------------

    async def call(
        self, script: Script, keys: Keys, args: Args, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a script on the loop's connection."""
        mux = self._mux
        if mux is None or not mux.sound:
            mux = await self._connected(until)
        return await mux.call(script, keys, args, until)

    async def command(self, args: Sequence[bytes | int], until: float) -> Reply:
        """Run a plain command on the loop's connection."""
        mux = await self._connected(until)
        return await mux.command(args, until)

    async def _connected(self, until: float) -> Mux:
        """Return the sound connection, dialled once however many callers ask."""
        if self._mux is not None and self._mux.sound:
            return self._mux
        if self.closed:
            raise ServerUnreachable("this client was closed", code="CLOSED")
        if self._dialling is None or self._dialling.done():
            self._dialling = self.loop.create_task(self._dial(), name="fencelock-dial")
        done, _ = await asyncio.wait({self._dialling}, timeout=max(0.0, until - now()))
        if not done:
            raise Broken("no connection in time", sent=False)
        return self._dialling.result()

    async def _dial(self) -> Mux:
        self._listening = False
        try:
            mux = await dial(self.source, self._pushed, now() + self.patience, stall=self.patience)
        except ServerUnreachable as error:
            # Nobody answered there ever: more likely a wrong address than a restart.
            if not self._reached or error.code not in {"", "REFUSED"}:
                raise
            raise Broken(str(error), sent=False) from error
        self._mux, self._reached = mux, True
        mux.closed.add_done_callback(self._unplugged)
        return mux

    def _unplugged(self, _: object) -> None:
        """Send every waiter back to ask: what was pushed in between is gone."""
        self._listening = False
        for waiter in self._waiters.values():
            waiter.lose_place()
            self.wake(waiter)

    # -- waiting --------------------------------------------------------------------------------

    async def open(self, waiter: Waiter, until: float) -> None:
        """Register a waiter under the loop's channel."""
        mux = await self._connected(until)
        waiter.channel = self.home
        self._waiters[waiter.want.waiter] = waiter
        if not self._listening:
            await mux.subscribe(self.home, until)
            self._listening = True

    def close(self, waiter: Waiter) -> None:
        """Forget a waiter."""
        self._waiters.pop(waiter.want.waiter, None)
        waiter.seat = None

    async def wait(self, waiter: Waiter, until: float) -> None:
        """Wait for news, or until the instant."""
        if waiter.news:
            return
        bell = self.loop.create_future()
        waiter.seat = bell
        timer = self.loop.call_later(max(0.0, until - now()), _ring, bell)
        try:
            await bell
        finally:
            timer.cancel()
            waiter.seat = None

    def wake(self, waiter: Waiter) -> None:
        """Ring the waiter's bell."""
        if isinstance(waiter.seat, asyncio.Future):
            _ring(waiter.seat)

    def _pushed(self, message: list[bytes]) -> None:
        """Dispatch a push: a grant to its waiter, a revocation to its hold."""
        if message[0] != b"message":
            return
        kind, _, payload = message[2].partition(b" ")
        if kind == b"granted":
            who, fence, granted_us, lease_ms = payload.split()
            waiter = self._waiters.get(who)
            if waiter is not None:
                waiter.hear(int(fence), int(granted_us), int(lease_ms))
                self.wake(waiter)
        elif kind == b"revoked":
            holder, _, reason = payload.partition(b" ")
            for hold in self.book.all_holds():
                if hold.want.holder == holder:
                    lose(self, hold, "revoked", now(), reason.decode())

    # -- leases ---------------------------------------------------------------------------------

    def keep(self, hold: Hold, when: float) -> None:
        """Put a new hold into the renewal book and set the timer for it."""
        self.book.add(hold, when)
        self._set_timer(when)

    def _set_timer(self, when: float | None) -> None:
        if when is None or self.closed or (self._timer is not None and when >= self._timer_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self.loop.call_later(max(0.0, when - now()), self._due)

    def _due(self) -> None:
        self._timer = None
        self._spawn(self._attend(), "fencelock-leases")

    async def _attend(self) -> None:
        try:
            await attend(self)
        finally:
            self._set_timer(self.book.next_at())

    def _spawn(self, flow: Coroutine[Any, Any, None], name: str) -> None:
        task = self.loop.create_task(flow, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def tell(self, hold: Hold) -> None:
        """Cancel the body or call ``on_lost``, as asked; what it raises is logged."""
        on_lost = hold.want.terms.on_lost
        if on_lost == "cancel":
            if hold.body is not None:
                hold.cancelled = True
                hold.body.cancel(f"lease of {hold.lease.name!r} is lost")
        elif on_lost is not None:
            self._spawn(_told(on_lost, hold), "fencelock-on-lost")

    def post(self, script: Script, keys: Keys, args: Args, trail: object = None) -> None:
        """Write the request at once, behind all that went before; see to its answer in a task."""
        if self.loop.is_closed() or self.closed:
            return
        slot = None
        if self._mux is not None and self._mux.sound:
            slot = self._mux.request(pack_source(script, keys, args), now() + POST_SECONDS)
            self._mux.flush()
        self._spawn(self._deliver(script, keys, args, slot), "fencelock-post")

    async def _deliver(
        self, script: Script, keys: Keys, args: Args, slot: asyncio.Future[Any] | None
    ) -> None:
        until = now() + POST_SECONDS
        try:
            if slot is not None and await _done(slot):
                return
            await ask(self, script, keys, args, until)
        except FencelockError as error:
            log.warning("a clean-up (%s) found no server in time: %s", script.name, error)

    # -- ends -----------------------------------------------------------------------------------

    async def shut(self) -> None:
        """Let clean-ups finish for a moment, then close the connection."""
        posts = {task for task in self._tasks if task.get_name() == "fencelock-post"}
        if posts:
            await asyncio.wait(posts, timeout=CLOSE_SECONDS)
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in (*self._tasks, *((self._dialling,) if self._dialling else ())):
            task.cancel()
        if self._mux is not None:
            self._mux.close()

    def after_fork(self) -> None:
        """In a child: nothing here may be touched, not even closed: the poller is the parent's."""
        self.closed = True


async def _done(slot: asyncio.Future[Any]) -> bool:
    """Tell whether a posted request was answered, and not with "not now"."""
    try:
        reply = await slot
    except Broken:
        return False
    return not (isinstance(reply, ReplyError) and str(reply).startswith(("LOADING", "BUSY")))


async def _told(on_lost: Callable[[Any], Any], hold: Hold) -> None:
    try:
        result = on_lost(hold.lease)
        if inspect.isawaitable(result):
            await result
    except Exception:
        log.exception("on_lost of %r raised", hold.lease.name)


def _ring(bell: asyncio.Future[None]) -> None:
    if not bell.done():
        bell.set_result(None)
