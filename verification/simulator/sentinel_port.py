"""The simulated port behind Sentinels: the shipping ``MasterMonitor`` and simulated connections."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial
from math import inf
from typing import Any

from fencelock._core.seat import Seat
from fencelock._core.types import Args, Carrier, Keys, NoReply, Reply
from fencelock._io.cleanup_queue import CLEANUP_SECONDS, UNDO_SECONDS
from fencelock._topology.io import Flow
from fencelock._topology.master_monitor import MasterGuard, MasterMonitor
from fencelock._topology.sentinel import FRESH_SECONDS, SentinelReply
from fencelock.errors import FencelockError, ServerError
from fencelock.scripts import Script
from verification.simulator import faults
from verification.simulator.latch import SimulatedIo, SimulatedLatch
from verification.simulator.network import Client, Link, World
from verification.simulator.port import SimulatedPort
from verification.simulator.sentinels import Sentinel, SentinelWorld
from verification.simulator.server import Request, Server

DIAL_SECONDS = 0.001


class Conversation:
    """A connection to a Sentinel, and what it replied."""

    def __init__(self, reply: SentinelReply, flags: bytes) -> None:
        self.reply = reply
        self.flags = flags

    def close(self) -> None:
        """End it."""


class SimulatedDialer(SimulatedIo):
    """Implements ``_topology.master_monitor.MasterIo`` for one simulated process."""

    _port: SimulatedSentinelPort

    def spawn(self, flow: Flow, name: str) -> bool:
        """Run a flow in a task of the process."""
        del name
        self._port.world.start(self._port.client, flow(), keeper=True)
        return True

    async def dial(
        self, source: Any, until: float, pushed: Any, guard: MasterGuard | None = None
    ) -> Any:
        """Connect to a Sentinel, which thinks about its answer, or to a server."""
        del pushed  # all go to the port
        if isinstance(source, Sentinel):
            return await self._ask(source, until)
        assert guard is not None
        return await self._port.dial_to(source, until, guard)

    async def _ask(self, sentinel: Sentinel, until: float) -> Conversation:
        service = self._port.world.service
        answers_at = self.now() + service.delay(sentinel)
        await self._port.sleep(min(answers_at, until))
        if answers_at > until:
            raise NoReply("no answer in time", sent=True)
        return Conversation(service.reply(sentinel), service.flags_by(sentinel))

    async def commands(
        self, connection: Any, several: Sequence[Args], until: float
    ) -> Sequence[Reply]:
        """Answer each."""
        return [await self.command(connection, each, until) for each in several]

    async def command(self, connection: Any, args: Args, until: float) -> Reply:
        """Answer as a Sentinel, or greet as a server, at once."""
        del until
        if isinstance(connection, Link):
            world = self._port.world
            replica = world.demoted and connection.server is world.old
            return {b"role": b"replica" if replica else b"master"}
        said = connection.reply
        if args[1] != b"MASTER":
            return [said.host.encode(), b"%d" % said.port]
        return {b"config-epoch": b"%d" % said.epoch, b"flags": connection.flags}


class SimulatedSentinelPort(SimulatedPort):
    """The port of one simulated process: one port, whichever the master."""

    world: SentinelWorld

    def __init__(
        self, world: World, client: Client, *, shared: bool, server_timeout: float
    ) -> None:
        super().__init__(world, client, shared=shared, server_timeout=server_timeout)
        self._master = MasterMonitor(self.world.service.as_source(), SimulatedDialer(self))
        self._guards: dict[int, MasterGuard] = {}  # by the number of a connection
        self._dialling: SimulatedLatch | None = None

    # -- connections ----------------------------------------------------------------------------

    async def dial_to(self, server: Server, until: float, guard: MasterGuard) -> Link:
        """Open a connection; a server that is frozen does not greet."""
        await self.sleep(self.now() + DIAL_SECONDS)
        if server.frozen:
            await self.sleep(until)
            raise NoReply("no greeting in time", sent=False)
        link = Link(self.client, len(self.client.links), server, self)
        self.client.links.append(link)
        self._guards[link.number] = guard
        return link

    def _free(self) -> Link | None:
        """Return a sound connection that no other task uses, or the shared one."""
        for link in self.client.links:
            free = self.shared or (link.seat_of is None and not link.owed)
            if link.sound and free and not link.apart:
                if not self._guards[link.number].is_replaced:
                    return link
                self._give_up(link)
        return None

    def _open_to_ask(self) -> Link | None:
        """Return an idle connection that was checked, or the shared one, which its use checks."""
        if not self.shared:
            return self._free()
        return next((each for each in self.client.links if each.sound and not each.apart), None)

    def _idle(self) -> Link:
        link = self._free()
        if link is None:
            raise NoReply("there is no connection", sent=False)
        return link

    async def connected(self, until: float) -> Link:
        """Return a free connection to the master, opened if there is none."""
        while (link := self._free()) is None:
            if self.shared and self._dialling is not None:
                await self._dialling.wait_until(until)
                if self.now() >= until:
                    raise NoReply("no connection in time", sent=False)
                continue
            self._dialling = latch = SimulatedLatch(self)
            try:
                await self._master.connect(until, None)
            finally:
                self._dialling = None
                latch.open()
        return link

    def _give_up(self, link: Link) -> None:
        """Close a connection; the server may still read what it was sent."""
        if not link.closed:
            faults.break_link(self.world, link, keeps=True)

    async def _guarded(self, link: Link, flow: Coroutine[Any, Any, None]) -> None:
        try:
            await flow
        except NoReply:
            self._give_up(link)
            raise

    async def _quietly(self, link: Link, flow: Flow) -> None:
        try:
            await self._guarded(link, flow())
        except NoReply:
            return

    # -- calls ----------------------------------------------------------------------------------

    async def _ask(self, request: Request, until: float, waiter: Seat | None) -> Reply:
        seated = waiter is not None and not self.shared
        link = self._link_for(waiter) if seated else await self.connected(until)
        return await self.ask_on(link, request, until)

    async def ask_on(self, link: Link, request: Request, until: float) -> Reply:
        """Send a request; its answer counts if the guard says so."""
        guard = self._guards[link.number]
        if guard.is_replaced:
            self._give_up(link)
            raise NoReply("there is another master now", sent=False)
        asked_at = self.now()
        if link.fresh and until > asked_at + FRESH_SECONDS:
            self.world.start(self.client, self._look_for_late(link, request), keeper=True)
        try:
            reply = await super().ask_on(link, request, until)
        except ServerError as error:
            await self._guarded(link, guard.refused(error, asked_at, until))
            raise
        if not guard.counts(asked_at):
            await self._guarded(link, guard.prove(asked_at, until))
        return reply

    async def _look_for_late(self, link: Link, request: Request) -> None:
        """Ask whether this is the master while an answer is late."""
        while True:
            await self.sleep(self.now() + FRESH_SECONDS)
            if request.asker is None or link.closed:
                return
            still = self._guards[link.number].still_master
            await self._quietly(link, partial(still, self.now() + FRESH_SECONDS))

    def pushed(self, link: Link, message: bytes) -> None:
        """Dispatch a push that counts."""
        deliver = partial(super().pushed, link)
        proving = self._guards[link.number].take(message, deliver, inf)
        if proving is not None:
            self.world.start(self.client, self._quietly(link, proving), keeper=True)

    # -- waiting --------------------------------------------------------------------------------

    async def open(self, waiter: Seat, until: float, *, listen: bool = True) -> None:
        """Seat a waiter on a connection to the master of the moment."""
        if self._seat_now(waiter, listen=listen):
            return
        connection = waiter.connection
        if self.shared or not isinstance(connection, Link) or not connection.sound:
            link = await self.connected(until)
            if listen and link.server.frozen:
                await self.sleep(min(until, self.now() + FRESH_SECONDS))
                self._give_up(link)
                raise NoReply("no answer in time", sent=False)
        await super().open(waiter, until, listen=listen)

    # -- clean-ups ------------------------------------------------------------------------------

    def run_in_background(
        self, script: Script, keys: Keys, args: Args, undo_connection: Carrier | None = None
    ) -> None:
        """Send after the request; to the master of the moment when that did not answer."""
        if not self.client.alive:
            return
        link = (
            undo_connection
            if isinstance(undo_connection, Link) and not undo_connection.closed
            else self._free()
        )
        if undo_connection is link and link is not None and not self.shared:
            link.sound = False  # for nothing but this
        self.world.start(self.client, self._deliver(script, keys, args, link), in_background=True)

    async def _deliver(self, script: Script, keys: Keys, args: Args, link: Link | None) -> None:
        began = self.now()
        try:
            if link is not None:
                request = Request(script.name, tuple(keys), tuple(args))
                await self.ask_on(link, request, began + UNDO_SECONDS)
                return
        except (NoReply, FencelockError):
            pass
        try:
            await self.ask(script, keys, args, began + CLEANUP_SECONDS)
        except FencelockError:
            return
