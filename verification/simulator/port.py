"""The simulated port: every method that can block suspends into a scheduler that a test owns.

It behaves as the two real ports do, by ``shared``:

- shared, as asyncio: one connection per process, one channel, pushes dispatched as they are read,
  possibly before a flow whose answer came earlier runs on.
- not shared, as threads: each waiter has a connection of its own and reads it itself; other calls
  take any idle connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

from fencelock._core.deadlines import SILENT_SECONDS
from fencelock._core.deadlock.unit_waits import UnitWaits
from fencelock._core.engine import Engine
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renewal_schedule import RenewalSchedule
from fencelock._core.lock.waiting import Lines
from fencelock._core.pushes import dispatch
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Carrier, Keys, NoReply, Reply
from fencelock.errors import ServerUnreachable
from fencelock.scripts import Script
from verification.simulator.network import NEVER_US, Client, Link, State, World, trap
from verification.simulator.server import Request, Server, unpacked


class SimulatedPort(Engine):
    """The port of one simulated process."""

    needed = 1
    closing = False
    mutex: AbstractContextManager[Any] = nullcontext()  # between two awaits a flow is alone here
    nodes: Sequence[SimulatedPort] = ()  # of a quorum only
    lane = -1  # of a quorum's node: its number
    unreachable: frozenset[int] = frozenset()  # a quorum's nodes that this process cannot reach

    def __init__(
        self,
        world: World,
        client: Client,
        *,
        shared: bool,
        server_timeout: float,
        server: Server | None = None,
    ) -> None:
        self.world = world
        self.client = client
        self.server: Server = server or world.server
        self.shared = shared
        self.server_timeout: float = server_timeout
        self.stall: float = server_timeout  # a silent connection is given up after it
        self.label: str = "the simulated server"
        self.client_channel: bytes = b"home%d" % client.number
        self.lines: Lines = Lines()
        self.renewals: RenewalSchedule = RenewalSchedule(self.lines.holders)
        self.waits: UnitWaits = UnitWaits()
        self.waits.ports[self] = None
        self.waiters: dict[bytes, Seat] = {}
        self._ids = 0
        self._channels = 0

    @property
    def tended(self) -> Sequence[SimulatedPort]:
        """Return the ports whose leases somebody minds."""
        return (self, *self.nodes)

    def now(self) -> float:
        """Return this process's monotonic clock."""
        return self.client.local(self.world.now_us)

    def new_id(self) -> bytes:
        """Return an id that is the same in every schedule."""
        self._ids += 1
        return b"%s%d" % (self.client.name.encode(), self._ids)

    def jitter(self) -> float:
        """Return no randomness: the schedule varies instead."""
        return 0.5

    # -- calls ----------------------------------------------------------------------------------

    async def call(
        self, script: Script, keys: Keys, args: Args, until: float, waiter: Seat | None = None
    ) -> Reply:
        """Send a request and wait for its reply, the end of its connection, or the instant."""
        return await self._ask(Request(script.name, tuple(keys), tuple(args)), until, waiter)

    async def run(
        self,
        request: bytes,
        key: bytes,  # noqa: ARG002 - one server has all keys
        until: float,
        waiter: Seat | None = None,
    ) -> Reply:
        """Send a packed script call; ends like ``call``."""
        return await self._ask(unpacked(request), until, waiter)

    async def command(
        self,
        args: Sequence[bytes | int],
        key: bytes,  # noqa: ARG002 - as above
        until: float,
        waiter: Seat | None = None,
    ) -> Reply:
        """Send a plain command; ends like ``call``."""
        name = args[0] if isinstance(args[0], bytes) else b""
        return await self._ask(Request(name.decode(), (), tuple(args)), until, waiter)

    async def _ask(self, request: Request, until: float, waiter: Seat | None) -> Reply:
        return await self.ask_on(self._link_for(waiter), request, until)

    async def ask_on(self, link: Link, request: Request, until: float) -> Reply:
        """Send a request on a connection; ends like ``call``.

        One that is silent is given up; sooner if it was used before, as both real ports do.
        """
        limit = until if link.fresh else min(until, self.now() + SILENT_SECONDS)
        request.asker = self.world.running
        link.up.append(request)
        if not link.owed:
            link.silent_since = self.now()
        link.owed += 1
        state = State("call", self.client.world_us(limit), link)
        try:
            reply = await self._suspend(state)
        except BaseException as error:
            request.asker = None
            if isinstance(error, NoReply) and error.undo_connection is not None:
                link.fresh = False
                silent = self.shared and self.now() >= link.silent_since + SILENT_SECONDS
                if limit < until or silent:
                    self._retire(link)
            if not self.shared and link.owed:
                link.sound = False  # an answer may still come: nothing else may be read here
            raise
        link.fresh = False
        return reply

    def _retire(self, link: Link) -> None:
        """Ask nothing new on a silent connection; what is sent behind it goes there."""
        link.sound, link.silent = False, True
        if self.shared:
            for waiter in self.waiters.values():
                waiter.lose_place()
                self.world.wake(self.client, waiter)

    def _link_for(self, waiter: Seat | None) -> Link:
        if waiter is not None and not self.shared:
            if not isinstance(waiter.connection, Link) or not waiter.connection.sound:
                raise NoReply("the waiter's connection is gone", sent=False)
            return waiter.connection
        return self._idle()

    def _idle(self) -> Link:
        """Return a sound connection that nobody uses, or the shared one; dialled when none is."""
        link = self._open_to_ask()
        return self.dial() if link is None else link

    def _open_to_ask(self) -> Link | None:
        for link in self.client.links:
            free = self.shared or (link.seat_of is None and not link.owed)
            if link.sound and free and not link.apart and link.server is self.server:
                return link
        return None

    def dial(self) -> Link:
        """Open another connection; Broken while nobody answers there."""
        if self.server.is_down(self.world.now_us):
            raise NoReply("connection refused", sent=False)
        return self._connected()

    def _connected(self) -> Link:
        link = Link(self.client, len(self.client.links), self.server, self)
        link.generation = self.server.generation
        self.client.links.append(link)
        return link

    # -- waiting --------------------------------------------------------------------------------

    def _seat_now(self, waiter: Seat, *, listen: bool) -> bool:
        """Give a waiter an open connection that listens already, as both real ports do."""
        link = self._open_link(waiter)
        if link is None or not link.sound:
            return False
        waiter.origin = link
        if not listen:
            return True
        if waiter.topic:
            self._hear_topic(link, waiter)
            return True
        waiter.channel = self.client_channel if self.shared else waiter.channel or link.channel
        if not link.channel or link.channel != waiter.channel:
            return False
        self.waiters[waiter.id] = waiter
        return True

    def _open_link(self, waiter: Seat) -> Link | None:
        """Return the shared connection, or the waiter's own; an idle one becomes its own."""
        if self.shared:
            return self._open_to_ask()
        if not isinstance(waiter.connection, Link):
            link = waiter.connection = self._open_to_ask()
            if link is not None:
                link.seat_of = waiter
        return waiter.connection

    async def open(self, waiter: Seat, until: float, *, listen: bool = True) -> None:
        """Seat a waiter; the subscription is there before anything that is asked afterwards."""
        if self._seat_now(waiter, listen=listen):
            return
        back = self.client.local(self.client.cut_us)
        if listen and back > self.now():
            await self.sleep(min(back, until))
            if until < back:
                raise NoReply("no connection in time", sent=False)
        link = self._idle() if self.shared else self._seated(waiter)
        waiter.origin = link
        if not listen:
            return
        if waiter.topic:
            self._hear_topic(link, waiter)
            return
        self.waiters[waiter.id] = waiter
        own = waiter.channel or link.channel or self._new_channel()
        waiter.channel = self.client_channel if self.shared else own
        self._listen(link, waiter.channel)

    def _seated(self, waiter: Seat) -> Link:
        """Return the waiter's own sound connection, another one when the last broke."""
        if isinstance(waiter.connection, Link) and waiter.connection.sound:
            return waiter.connection
        self._unseat(waiter)
        link = waiter.connection = self._idle()
        link.seat_of = waiter
        return link

    def _new_channel(self) -> bytes:
        self._channels += 1
        return b"%b.%d" % (self.client_channel, self._channels)

    def _listen(self, link: Link, channel: bytes) -> None:
        if link.channel != channel:
            link.channel = channel
            link.server.subscribe(channel, link.who)

    def _hear_topic(self, link: Link, waiter: Seat) -> None:
        """Have a waiter hear another program's channel."""
        waiter.channel = waiter.topic
        self.waiters[waiter.id] = waiter
        heard = link.topics.setdefault(waiter.topic, [])
        if waiter not in heard:
            heard.append(waiter)
            link.server.subscribe(waiter.topic, link.who)

    def _leave_topic(self, waiter: Seat) -> None:
        for link in self.client.links:
            heard = link.topics.get(waiter.topic, [])
            if waiter in heard:
                heard.remove(waiter)
                if not heard:
                    del link.topics[waiter.topic]
                    link.server.unsubscribe(link.who, waiter.topic)

    def close(self, waiter: Seat) -> None:
        """Forget a waiter; its connection is kept only when no answer is owed on it."""
        self.waiters.pop(waiter.id, None)
        if waiter.topic:
            self._leave_topic(waiter)
        if not self.shared:  # else it stays known where its requests went
            waiter.origin = None
        self._unseat(waiter)

    def _unseat(self, waiter: Seat) -> None:
        link, waiter.connection = waiter.connection, None
        if isinstance(link, Link):
            link.seat_of = None
            strays = any(stray.undo_connection is link for stray in waiter.owed)
            if not link.sound and not link.silent and not strays:
                self.hang_up(link)

    def hang_up(self, link: Link) -> None:
        """Close our end. The server still reads what it was sent before."""
        link.sound, link.closed = False, True
        link.down.clear()
        if not link.up:
            link.server.unsubscribe(link.who)

    async def wait(self, waiter: Seat, until: float) -> None:
        """Wait for news, or until the instant."""
        if waiter.local:
            if not waiter.news:
                await self._suspend(State("wait", self.client.world_us(until), None, waiter))
            return
        if not self.shared and (
            not isinstance(waiter.connection, Link) or not waiter.connection.sound
        ):
            waiter.lose_place()
        if waiter.news:
            return
        link = waiter.connection if isinstance(waiter.connection, Link) else None
        await self._suspend(State("wait", self.client.world_us(until), link, waiter))

    def wake(self, waiter: Seat) -> None:
        """Let a shared waiter's ``wait`` return; one that reads for itself looks by itself."""
        if self.shared or waiter.local:
            self.world.wake(self.client, waiter)

    async def sleep(self, until: float) -> None:
        """Sleep until an instant."""
        await self._suspend(State("sleep", self.client.world_us(until)))

    async def mind(self) -> None:
        """Sleep until a lease wants attention: what the keeper of a real port does."""
        await self._suspend(State("mind", NEVER_US, port=self))

    def unplugged(self, link: Link) -> None:
        """Have the waiters of a broken connection ask again."""
        for waiter in self.waiters.values():
            if self.shared or (waiter.connection is link and self.world.waits(self.client, waiter)):
                waiter.lose_place()
                self.world.wake(self.client, waiter)

    async def suspend(self, state: State) -> Any:
        """Suspend the running flow; one of a dead process ends."""
        return await self._suspend(state)

    async def _suspend(self, state: State) -> Any:
        if not self.client.alive:  # a dead process cleans nothing up
            raise GeneratorExit
        return await trap(state)

    def pushed(self, link: Link, message: bytes) -> None:
        """Dispatch a push, and wake whom it is for, as both real ports do."""
        if link.silent:  # it was given up for another, whose news may be newer
            return

        def find(who: bytes) -> Seat | None:
            waiter = self.waiters.get(who)
            return waiter if self.shared or link.seat_of is waiter else None

        for heard in [*link.topics.values()] if message == b"0" else ():
            for each in heard:
                each.lose_place()
                self.world.wake(self.client, each)
        if message.startswith(b"revoked "):
            self.world.monitor.heard_revocation(self.client, message.split(b" ")[1])
        waiter = dispatch(self, (b"message", self.client_channel, message), find)
        if waiter is not None:
            self.world.wake(self.client, waiter)
        elif message.startswith(b"signal ") and isinstance(link.seat_of, Seat):
            self.world.wake(self.client, link.seat_of)  # the thread that reads

    @asynccontextmanager
    async def repeating(
        self, flow: Callable[[], Coroutine[Any, Any, None]], seconds: float
    ) -> AsyncIterator[None]:
        """Run a flow now and then in a task of the process."""

        async def repeats() -> None:
            while True:
                await self.sleep(self.now() + seconds)
                await flow()

        task = self.world.start(self.client, repeats(), keeper=True)
        try:
            yield
        finally:
            task.coroutine.close()
            task.done, task.state, task.ready = True, None, None

    # -- leases and clean-ups -------------------------------------------------------------------

    def attend(self, hold: Hold, when: float) -> None:
        """Do nothing: the keeper sees a new hold by itself."""

    @property
    def hears(self) -> bool:
        """Return True while a connection listens to the messages for this process."""
        return any(
            link.sound and link.channel == self.client_channel
            for link in self.client.links
            if link.port is self
        )

    def hear_soon(self) -> None:
        """Listen at once: on the shared connection, or on one for nothing else."""
        try:
            link = self._idle() if self.shared else self.dial()
        except NoReply:
            return
        link.apart = link.apart or not self.shared
        self._listen(link, self.client_channel)

    def attend_by(self, when: float) -> None:
        """Do nothing: the keeper looks into the book by itself."""

    def notify_loss(self, hold: Hold) -> None:
        """Tell a loss to the one who watches."""
        self.world.monitor.told(hold)

    def run_in_background(
        self, script: Script, keys: Keys, args: Args, undo_connection: Carrier | None = None
    ) -> None:
        """Send after the request, or on any connection; again, when that one breaks."""
        if self.client.alive:
            request = Request(script.name, tuple(keys), tuple(args), posted=self._repost)
            link = (
                undo_connection
                if isinstance(undo_connection, Link) and not undo_connection.closed
                else self._for_posts()
            )
            if undo_connection is link and not self.shared:
                link.sound = False  # for nothing but this
            self._send(request, link)

    def _repost(self, request: Request) -> None:
        if self.client.alive:
            self._send(request, self._for_posts())

    def _for_posts(self) -> Link:
        """Return a connection for a clean-up; one that passes later, while the server is down."""
        try:
            return self._idle()
        except (NoReply, ServerUnreachable):
            link = self._connected()
            link.blocked_up_us, link.apart = self.server.started_us, True
            return link

    def _send(self, request: Request, link: Link) -> None:
        link.up.append(request)
        link.owed += 1
