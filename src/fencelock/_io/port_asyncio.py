"""The asyncio port: one multiplexed connection per server and loop.

Rules of this file:

- Everything runs in one loop's thread; the tables are safe because nothing is awaited inside the
  mutex. The mutex only makes a coroutine that the garbage collector closes wait for the unlock.
- A cancelled caller leaves its slot in the connection. Its undo is sent at once, after the request
  and before the cancellation goes on: a loop that closes right afterwards cannot lose it.
- There is no task while there is nothing to do: one timer serves all leases (renewal_timer.py),
  another all waiters.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING, Any

from fencelock._core.lock.acquire import acquire, answered, enter, failed, has_turn, start
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.maintain import Renewer
from fencelock._core.lock.release import Of, Take, end_lease, finish, not_released, take_and_release
from fencelock._core.lock.tenure import give_up_all
from fencelock._core.pushes import MESSAGE, dispatch
from fencelock._core.round_trips import RoundTrips
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Carrier, Keys, NoReply, Reply, closed
from fencelock._io.connection_asyncio import AsyncConnection, set_done
from fencelock._io.link_asyncio import Link
from fencelock._io.process_ports import CLOSE_SECONDS, ProcessPort
from fencelock._io.renewal_timer import RenewalTimer
from fencelock._io.tasks import run_release
from fencelock._io.wire import ReplyError, not_now
from fencelock._runtime import mutex as mutexes
from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.log import log
from fencelock.errors import ServerError
from fencelock.scripts import Script, packed, with_source

if TYPE_CHECKING:
    from fencelock._io.replicas_asyncio import AsyncReplicas

CLEANUP_SECONDS, UNDO_SECONDS = 30.0, 2.0  # as in cleanup_queue.py
# The task that an ``on_lost`` runs in: it may close its client, also in another task or thread.
notifying: ContextVar[Any] = ContextVar("fencelock_notifying", default=None)
_shutting: set[asyncio.Task[bool]] = set()
LISTEN_AFTER_SECONDS = 0.2
REFUSED_SECONDS = 2.0
PAUSE_SECONDS = 0.5  # as in cleanup_queue.py
# How often ``aclose`` looks whether requests were answered.
LOOK_SECONDS = 0.001
# Within so many turns of the loop, tasks whose requests have ended have sent their clean-ups.
TURNS = 5
# Bells are rung at least so far apart: of many waiters, each may have a timeout of its own.
RING_SECONDS = 0.005


class AioPort(ProcessPort):
    """The port of one server, and of Sentinels, for the tasks of one event loop."""

    replicas: AsyncReplicas | None

    def _start(self) -> None:
        super()._start()
        self.loop = asyncio.get_running_loop()
        self._hearing: asyncio.TimerHandle | None = None
        self._eager = False  # listening does not wait until a lease lasts
        self._refused_until = 0.0  # not so eagerly again: perhaps the user may not listen
        self.link: Link = self._new_link()
        self._keep_pace(self.link.trips)
        self._waiters: dict[bytes, Seat] = {}
        self._bells: dict[asyncio.Future[None], float] = {}  # when each is rung at the latest
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = inf
        self._timer = RenewalTimer(self)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closers: set[asyncio.Task[Any]] = set()  # each runs an ``on_lost`` that closes us

    def _new_link(self) -> Link:
        return Link(self, self.source, server_timeout=self.server_timeout)

    @property
    def trips(self) -> RoundTrips:
        """Return the round trips that bound its calls."""
        return self.link.trips

    @property
    def connections(self) -> list[AsyncConnection]:
        """Return those that are sound: of one server there is one at most."""
        mux = self.link.idle()
        return [] if mux is None else [mux]

    # -- clock, ids, tables ---------------------------------------------------------------------

    async def sleep(self, until: float) -> None:
        """Sleep until an instant."""
        await asyncio.sleep(min(max(0.0, until - now()), REST_SECONDS))
        while (left := until - now()) > 0:
            await asyncio.sleep(min(left, REST_SECONDS))

    # -- calls ----------------------------------------------------------------------------------

    async def run(
        self, request: bytes, key: bytes, until: float, waiter: Seat | None = None
    ) -> Reply:
        """Run a packed script call on the loop's connection."""
        mux = self.link.mux
        if mux is None or not mux.sound:
            mux = await self.link.connected(until)
        reply = await mux.run(request, until)
        return reply if type(reply) is not ReplyError else await mux.refused(reply, request, until)

    def unplugged(self) -> None:
        """Make every waiter ask again: pushes in between are lost."""
        self.rouse(self._waiters.values())
        if self.renewals.busy:
            self._listen_soon()

    # -- the usual acquire and release ------------------------------------------------------------

    async def acquire(self, attempt: Hold, timeout: float | None) -> Hold | None:
        """Acquire for a task; see ``acquire`` of the core, which goes on where need be."""
        if self.direct:
            try:
                start(self, attempt, timeout)
                enter(self, attempt)
                if attempt.asks is None:
                    if has_turn(self, attempt):
                        return attempt
                else:
                    at = attempt.arrived_at
                    until = at + self.server_timeout
                    if attempt.give_up_at < until:  # seldom: else not even a call
                        until = self.answer_by(at, attempt.give_up_at)
                    try:
                        answer = await self._ask(attempt, at, until, listen=True)
                    except (NoReply, ServerError) as trouble:
                        attempt.answer = trouble
                    else:
                        if answered(self, attempt, answer):
                            return attempt
            except BaseException as error:
                failed(self, attempt, error)
                raise
        return await acquire(self, attempt, timeout)

    async def release(self, handle: object, take: Take[*Of], *of: *Of) -> int | None:
        """Release for a task; see ``take_and_release`` of the core, which goes on if need be."""
        if not self.direct or self.elsewhere or mutexes.owned():
            return await run_release(take_and_release(self, take, *of), handle, self)
        taken: list[Hold] = []
        reply: Reply | Exception = None
        until = 0.0
        try:
            take(*of, taken)
            hold = taken[0]
            tenure = hold.tenure
            if tenure is not None:
                if tenure.retain(hold):
                    if hold.owed or hold.reported:  # seldom: else not even a call
                        finish(self, taken)
                    return 0
            elif not hold.released:
                request, until = end_lease(self, hold), now() + self.server_timeout
                try:
                    reply = await self.run(request, hold.terms.keys.lock, until)
                except (NoReply, ServerError) as trouble:
                    reply = trouble
                if reply == 1:
                    if hold.owed or hold.reported:
                        finish(self, taken)
                    return 0
            flow = take_and_release(self, take, *of, taken=taken, reply=reply, until=until)
            return await flow
        except BaseException as error:
            not_released(self, taken, error)
            raise
        finally:
            del reply

    # -- waiting --------------------------------------------------------------------------------

    async def ask_for(self, attempt: Attempt, at: float, until: float, /, *, listen: bool) -> Reply:
        """Ask on the connection, registered under the loop's channel for a place in line."""
        reply = await self._ask(attempt, at, until, listen=listen)
        if reply is None:
            await self.open(attempt, until, listen=listen)
            mux = await self.link.connected(until)
            reply = await self._ask(attempt, now(), until, listen=listen, opened=mux)
        return reply

    async def _ask(
        self,
        attempt: Attempt,
        at: float,
        until: float,
        *,
        listen: bool,
        opened: AsyncConnection | None = None,
    ) -> Reply:
        """Send a question on the loop's connection; None if that is not ready for it.

        Until a grant it is registered there.
        """
        mux = opened
        if mux is None:
            link = self.link
            mux = link.mux
            if mux is None or not mux.sound or self.closing:
                return None
            if listen:
                if not link.listening or attempt.terms.topic:
                    return None
                attempt.channel = self.client_channel
                self._waiters[attempt.id] = attempt
        if mux.trips.watched:
            attempt.reckon(mux.trips)
        attempt.origin = mux
        request = attempt.question(at)
        reply = await mux.run(request, until)
        if type(reply) is ReplyError:
            reply = await mux.refused(reply, request, until)
        if type(reply) is bytes and listen and self.replicas is None:
            if attempt.terms.topic:
                self.close(attempt)
            else:
                self._waiters.pop(attempt.id, None)
        return reply

    async def open(self, waiter: Seat, until: float, *, listen: bool = True) -> None:
        """Register a waiter under the loop's channel."""
        if self.closing:
            raise closed()
        waiter.origin = mux = await self.link.connected(until)
        if listen and waiter.topic:
            waiter.channel = waiter.topic
            self._waiters[waiter.id] = waiter
            if mux.tune(waiter):
                await mux.subscribe(waiter.topic, until)
        elif listen:
            waiter.channel = self.client_channel
            self._waiters[waiter.id] = waiter
            await self.link.listen(until)
            waiter.origin = self.link.mux

    def _listen_soon(self, after: float = LISTEN_AFTER_SECONDS) -> None:
        """Listen for revocations once a lease lasts: short leases cost nothing."""
        if self._hearing is None and not self.closing and not self.nodes:  # a node's port does it
            self._hearing = self.loop.call_later(after, self._hear_now)

    def _hear_now(self) -> None:
        _ = self.spawn(self._hear(), "fencelock-ear")

    async def _hear(self) -> None:
        self._hearing = None
        if self.link.listening or not (self.renewals.busy or self._eager):
            self._eager = False
            return
        try:
            await self._listen_home(now() + self.server_timeout)
            self._refused_until = 0.0
            await Renewer(self).recheck()
            self.attend_by(now())
        except Exception as error:  # noqa: BLE001 - also of the machine: it tries again (I16)
            tell = log.debug if self._refused_until else log.info
            self._refused_until = now() + REFUSED_SECONDS
            if self.renewals.busy:
                self._listen_soon(REFUSED_SECONDS)
            tell("for now, revocations are noticed at the next renewal only: %s", error)
        finally:
            self._eager = False

    async def _listen_home(self, until: float) -> None:
        await self.link.listen(until)

    def close(self, waiter: Seat) -> None:
        """Forget a waiter."""
        self._waiters.pop(waiter.id, None)
        waiter.connection = None
        if waiter.topic and waiter.origin is not None:
            waiter.origin.untune(waiter)

    async def wait(self, waiter: Seat, until: float) -> None:
        """Wait for news, or until the instant."""
        if self._timer.ticking is None:
            self._timer.tick()
        bell = waiter.connection = self.loop.create_future()
        if waiter.news:  # not before: another thread that notices a loss rings the bell
            waiter.connection = None
            return
        self._bells[bell] = until
        if until < self._alarm_at:
            self._set_alarm(until)
        try:
            await bell
        finally:
            del self._bells[bell]
            waiter.connection = None

    def _set_alarm(self, when: float) -> None:
        """Set the timer of all waiters, which outlasts them for a moment only."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = when
        self._alarm = self.loop.call_later(min(max(0.0, when - now()), REST_SECONDS), self._ring)

    def _ring(self) -> None:
        """Wake the waiters whose time is up, and set the timer for the others."""
        self._alarm, self._alarm_at = None, inf
        current = now()
        for bell, until in self._bells.items():
            if until <= current:
                set_done(bell)
        left = [until for until in self._bells.values() if until > current]
        if left:
            self._set_alarm(max(min(left), current + RING_SECONDS))

    def wake(self, waiter: Seat) -> None:
        """Ring its bell."""
        bell = waiter.connection
        if not isinstance(bell, asyncio.Future):
            return
        if waiter.local and not self.is_here:
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(set_done, bell)
        else:
            set_done(bell)

    @property
    def is_here(self) -> bool:
        """Return True in the loop's thread: any thread may notice that a lease is lost."""
        return asyncio._get_running_loop() is self.loop  # noqa: SLF001 - its public twin raises when there is none

    def pushed(self, message: list[bytes]) -> None:
        """Take a push, and wake the waiter that it was for."""
        mux = self.link.mux
        topics = {} if mux is None or len(message) != len(MESSAGE) else mux.topics
        if topics and (heard := topics.get(message[1])):
            self.rouse(heard)
            return
        waiter = dispatch(self, message, self._waiters.get)
        if waiter is not None:
            self.wake(waiter)

    # -- leases ---------------------------------------------------------------------------------

    def attend(self, hold: Hold, when: float) -> None:
        """Set the timer for a new hold."""
        timer = self._timer
        if timer.renewing is None or when < timer.renews_at:
            timer.set(when)
        if timer.ticking is None:
            timer.tick()
        if self._hearing is None and not self.link.listening:
            self._listen_soon()

    def attend_by(self, when: float) -> None:
        """Have leases looked at by an instant, at the latest."""
        self._timer.set(when)

    @property
    def timed(self) -> bool:
        """Return True while there is something that the clock is watched for."""
        return bool(self.renewals.busy or self._waiters)

    def woke_up(self) -> None:
        """Wake the waiters: the machine was suspended."""
        for waiter in self._waiters.values():
            self.wake(waiter)

    def at_home(self, work: Callable[[], None], /) -> None:
        """Have work done in the loop; nothing is done once that is closed."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(work)

    def spawn(self, flow: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a flow in a task of the port."""
        task = self.loop.create_task(flow, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @asynccontextmanager
    async def repeating(
        self, flow: Callable[[], Coroutine[Any, Any, None]], seconds: float
    ) -> AsyncIterator[None]:
        """Run a flow repeatedly in a task."""

        async def repeat() -> None:
            while True:
                await asyncio.sleep(seconds)
                try:
                    await flow()
                except Exception:  # of the machine, perhaps: it tries again (I16)
                    log.exception("a proof of life failed")

        task = self.spawn(repeat(), "fencelock-proof")
        try:
            yield
        finally:
            task.cancel()

    @property
    def hears(self) -> bool:
        """Return True while the messages to this client are heard."""
        return self.link.listening and not self.link.closed

    def hear_soon(self) -> None:
        """Listen at once."""
        if self._eager or self.closing or now() < self._refused_until:
            return
        self._eager = True
        if self._hearing is not None:
            self._hearing.cancel()
        self._hearing = self.loop.call_later(0, self._hear_now)

    def tell(self, hold: Hold) -> None:
        """Cancel the body or call ``on_lost``, in a turn of its own.

        The body that noticed the loss may end by itself, and any thread may notice it.
        """
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._tell, hold)

    def _tell(self, hold: Hold) -> None:
        on_lost = hold.terms.options.on_lost
        if not hold.is_first_to("tell"):
            return
        if on_lost == "cancel":
            if hold.body is not None:
                hold.body.cancel(hold.name)
        else:
            _ = self.spawn(call_on_lost(on_lost, hold), "fencelock-on-lost")

    def run_in_background(
        self, script: Script, keys: Keys, args: Args, undo_connection: Carrier | None = None
    ) -> None:
        """Write the request at once, after all earlier ones; handle its answer in a task."""
        if self.loop.is_closed() or self.link.closed:
            return
        asked_at, slot = now(), None
        mux = (
            undo_connection
            if isinstance(undo_connection, AsyncConnection) and undo_connection.open
            else self._mux_for(keys[0])
        )
        if mux is not None:
            until = now() + (UNDO_SECONDS if mux.retired else CLEANUP_SECONDS)
            slot = mux.behind(with_source(packed(script, keys, args)), until)

        async def settle() -> None:
            until = now() + CLEANUP_SECONDS
            if slot is not None and mux is not None:
                with suppress(NoReply):
                    reply = await slot
                    refused = isinstance(reply, ReplyError) and not_now(reply)
                    if not refused and self.settles(mux, keys[0], asked_at):
                        return
            while now() < until:
                try:
                    await self.deliver(script, keys, args, until)
                    return
                except Exception:  # none of a server, which ``deliver`` logs: it is repeated (I16)
                    log.exception("a clean-up (%s) failed", script.name)
                    await asyncio.sleep(PAUSE_SECONDS)

        _ = self.spawn(settle(), "fencelock-post")

    def _mux_for(self, key: bytes) -> AsyncConnection | None:
        """Return the open connection for a key, if there is one."""
        del key  # one server has all
        return self.link.mux

    # -- ends -----------------------------------------------------------------------------------

    shut = ProcessPort.end

    async def each(self, flow: Callable[[Any, float], Awaitable[Any]], until: float) -> None:
        """Run a flow for all at once: each has its own time."""
        if self.nodes:
            await asyncio.gather(*[flow(node, until) for node in self.nodes])
        else:  # in this turn: a waiter that is dismissed later may be granted before
            await flow(self, until)

    async def dismiss_waiters(self, until: float) -> None:
        """Wake those that wait again and again: an answer may have just put one in line."""
        self.closing = True
        self.lines.close(self.wake)
        give_up_all(self)
        while (len(self.lines) or self._waiters or self.asking) and now() < until:
            self.rouse(self._waiters.values())
            await asyncio.sleep(LOOK_SECONDS)
        await let_act()
        await self.finish_cleanups(until)

    async def finish_cleanups(self, until: float) -> None:
        """Wait for the tasks that do them, until an instant at most."""
        await self._finish("fencelock-post", until)

    @property
    def asking(self) -> bool:
        """Return True while a request waits for its answer, or for the replicas."""
        asking = any(mux.asking for mux in self.connections)
        return asking or (self.replicas is not None and self.replicas.asking)

    async def end_requests(self) -> None:
        """End the requests that have no answer with an error; their undo is sent behind them."""
        if self.replicas is not None:
            await self.replicas.close()
            await let_act()
        asked = [mux for mux in self.connections if mux.asking]
        for mux in asked:
            mux.retire(for_good=True)
        if asked:
            await let_act()

    async def _finish(self, name: str, until: float) -> None:
        """Wait for the port's tasks of this name, until an instant."""
        tasks = {task for task in self._tasks if task.get_name() == name} - self._closers
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, until - now()))

    async def hang_up(self, until: float, *, release: bool) -> None:
        """Let each ``on_lost`` end, but for one that waits for this; then end timers and tasks."""
        if (caller := notifying.get()) is not None:
            self._closers.add(caller)
        await asyncio.sleep(0)  # holders are notified in a turn of their own
        await self._finish("fencelock-on-lost", until if release else now() + CLOSE_SECONDS)
        self._timer.cancel()
        for timer in (self._hearing, self._alarm):
            if timer is not None:
                timer.cancel()
        for task in self._tasks - self._closers:
            if task.get_name() == "fencelock-on-lost":
                log.warning("an on_lost did not end while its client was closed: it is cancelled")
            task.cancel()
        await self.link.close()

    @property
    def left_open(self) -> bool:
        """Return True while it was not closed and has a connection."""
        if self.closing:
            return False
        return bool(self.connections) or any(node.left_open for node in self.nodes)

    def shut_soon(self) -> None:
        """Close in a task."""
        task = self.loop.create_task(self.shut(), name="fencelock-shut")
        _shutting.add(task)  # not one of ours: those are cancelled by it
        task.add_done_callback(_shutting.discard)

    def after_fork(self) -> None:
        """In a child: no connection may be touched, not even closed: the poller is the parent's."""
        for mux in self.connections:
            mux.sound = False
        ProcessPort._start(self)  # noqa: SLF001 - the tables only: what the loop has is the parent's
        self.closing = self.link.closed = True


async def call_on_lost(on_lost: Callable[[Any], Any], hold: Hold) -> None:
    """Call what may be a coroutine function; what it raises is logged.

    A close inside it must not wait for this task, nor cancel it.
    """
    notifying.set(asyncio.current_task())
    try:
        result = on_lost(hold)
        if isinstance(result, Awaitable):
            await result
    except Exception:
        log.exception("on_lost of %r raised", hold.name)


async def let_act() -> None:
    """Let tasks whose requests have ended send their clean-ups."""
    for _ in range(TURNS):
        await asyncio.sleep(0)
