"""The blocking port for a Cluster: everything goes to the node that its keys are at.

Rules of this file:

- MOVED and ASK are followed at once, on sound connections: what was redirected did not run.
- A waiter listens at the node of its lock: who publishes counts the listeners of that node only.
  Where the lock goes, its waiter's seat goes.
- An attempt is given up after a second: then the map is read anew, and the next attempt goes to
  whoever took the silent node's place.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fencelock._core.keys import slot
from fencelock._core.types import Args, Broken, Keys, Reply, Request
from fencelock._core.waiter import Waiter
from fencelock._ports.beside import Beside
from fencelock._ports.blocking import BlockingPort
from fencelock._ports.cluster_asks import (
    ASKING,
    Ask,
    plain,
    read,
    ready,
    scripted,
    together,
    write,
)
from fencelock._ports.cluster_pool import ClusterPool
from fencelock._ports.pool import closed
from fencelock._topology.flows.cluster import CLUSTER
from fencelock._transport.cluster import (
    ANSWER_SECONDS,
    LOCAL,
    REDIRECTS_MAX,
    Clustered,
    Redirect,
    in_slot,
    key_in,
)
from fencelock._transport.cluster_proof import Node
from fencelock._transport.direct import Connection
from fencelock._transport.wire import ReplyError, pack_call
from fencelock.clock import now
from fencelock.errors import FencelockError, ServerError
from fencelock.log import log
from fencelock.scripts import Script

# Requests that are written before the first answer is read: few enough for any socket's buffer.
FAN_MAX = 100
# Channels that a connection listens to before it is replaced: one for each slot it waited for.
CHANNELS_MAX = 256
ANYWHERE = -1  # in ``Connection.channels``: a channel of no slot


class ClusterPort(BlockingPort):
    """Implements ``_core.port.Port`` for threads, over a Cluster."""

    source: Clustered
    pool: ClusterPool

    flows = CLUSTER

    def _new_pool(self) -> ClusterPool:
        self._sharded = True  # until a server does not know sharded channels
        self._beside = Beside(self)
        return ClusterPool(self.source, self._ear)

    # -- calls ----------------------------------------------------------------------------------

    async def call(
        self, script: Script, keys: Keys, args: Args, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a script at the node of its keys; the waiter's connection is moved there."""
        return self._routed(keys[0], scripted(pack_call(script, keys, args)), until, waiter)

    async def run(
        self, request: bytes, key: bytes, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a packed script call at the node of its key."""
        return self._routed(key, scripted(request), until, waiter)

    async def command(
        self, args: Sequence[bytes | int], key: bytes, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a plain command at the node of this key."""
        return self._routed(key, plain(args), until, waiter, proves=False)

    def _routed(
        self, key: bytes, ask: Ask, until: float, waiter: Waiter | None, *, proves: bool = True
    ) -> Reply:
        until = min(until, now() + ANSWER_SECONDS)
        step: Redirect | None = None
        for _ in range(REDIRECTS_MAX):
            connection = self._connection(key, step, until, waiter)
            asking, asked_at = step is not None and step.asking, now()
            try:
                reply = ask(connection, until, asking=asking)
            except Broken:
                self.pool.slots.doubt(connection.node)
                raise
            except ServerError as error:
                step = self.pool.slots.redirect(error)
                if step is None:
                    raise
            else:
                if proves and not asking:  # the others name a slot's old node until it has moved
                    self.pool.confirm(key, connection.node, asked_at, until)
                return reply
            finally:
                if waiter is None:
                    self.pool.give(connection)
        raise Broken("the slots of the Cluster move too fast to follow", sent=False)

    def _connection(
        self, key: bytes, step: Redirect | None, until: float, waiter: Waiter | None
    ) -> Connection:
        if step is None:
            return self.pool.take_for(key, until) if waiter is None else self._seat(waiter)
        if waiter is None:
            return self.pool.take_at(step.node, until)
        if not isinstance(waiter.seat, Connection) or waiter.seat.node != step.node:
            self._reseat(waiter, step.node, until)
        if waiter.channel:
            self._hear(waiter, until, asking=step.asking)
        return self._seat(waiter)

    # -- waiting --------------------------------------------------------------------------------

    def seat(self, waiter: Waiter, *, listen: bool) -> bool:
        """Seat a waiter on a connection to the right node that listens already."""
        node = self.pool.slots.sure(waiter.key)
        if node is None or self.closing:
            return False
        seat = waiter.seat
        if seat is None:
            seat = waiter.seat = self.pool.idle_at(node)
            if seat is None:
                return False
            seat.waiter = waiter
        if not seat.sound or seat.node != node:
            return False
        if not listen:
            return True
        number = slot(waiter.key) if self._sharded else ANYWHERE
        waiter.channel = waiter.channel or seat.channels.get(number, b"")
        return bool(waiter.channel) and waiter.channel in seat.channels.values()

    async def open(self, waiter: Waiter, until: float, *, listen: bool = True) -> None:
        """Seat a waiter on a connection to the right node, one that listens when asked."""
        if self.closing:
            raise closed()
        until = min(until, now() + ANSWER_SECONDS)
        node = self.pool.owner(waiter.key, until)
        seat = waiter.seat
        if not isinstance(seat, Connection) or not seat.sound or seat.node != node:
            self._reseat(waiter, node, until)
        if listen:
            self._hear(waiter, until, asking=False)

    def _reseat(self, waiter: Waiter, node: Node, until: float) -> None:
        self.close(waiter)
        seat = waiter.seat = self.pool.take_at(node, until)
        seat.waiter = waiter

    def _hear(self, waiter: Waiter, until: float, *, asking: bool) -> None:
        """Have the waiter's seat listen; Broken when the slot has gone elsewhere: ask again."""
        seat, number = self._seat(waiter), slot(waiter.key)
        try:
            if self._sharded and self._heard(waiter, seat, number, until, asking=asking):
                return
            name = waiter.channel or seat.channels.get(ANYWHERE) or self._new_channel() + LOCAL
            if name not in seat.channels.values():
                seat.subscribe(name, until)
                seat.channels[ANYWHERE] = name
            waiter.channel = name
        except Broken:
            self.pool.slots.doubt(seat.node)
            raise
        except ServerError as error:
            if self.pool.slots.redirect(error) is None:
                raise
            raise Broken(f"the slot has moved: {error}", sent=False) from error

    def _heard(
        self, waiter: Waiter, seat: Connection, number: int, until: float, *, asking: bool
    ) -> bool:
        """Listen to a channel of the slot; False when the server has no such channels."""
        channel = (
            waiter.channel or seat.channels.get(number) or in_slot(self._new_channel(), number)
        )
        if channel is None or channel.endswith(LOCAL):
            return False
        if channel not in seat.channels.values():
            try:
                if asking:
                    seat.command(ASKING, until)
                seat.subscribe(channel, until, b"SSUBSCRIBE")
            except ServerError as error:
                if error.code in {"ERR", "NOPERM"} and not waiter.channel:
                    self._sharded = False  # an old server, or the user may not
                    log.info("no sharded channels: %s", error)
                    return False
                raise
            seat.channels[number] = channel
        waiter.channel = channel
        return True

    def close(self, waiter: Waiter) -> None:
        """Take the connection back from a waiter."""
        seat = waiter.seat
        if isinstance(seat, Connection) and len(seat.channels) > CHANNELS_MAX and not seat.owed:
            waiter.seat = None
            seat.close()
        super().close(waiter)

    async def wait(self, waiter: Waiter, until: float) -> None:
        """Read the waiter's connection; when it is gone, so may be its node."""
        seat = waiter.seat
        await super().wait(waiter, until)
        if isinstance(seat, Connection) and not seat.sound:
            self.pool.slots.doubt(seat.node)

    def pushed(self, connection: Connection, message: list[bytes]) -> None:
        """Take a push; a channel that the server closed went elsewhere with its slot."""
        kind, waiter = message[0], connection.waiter
        if kind == b"smessage":
            message = [b"message", *message[1:]]
        elif kind == b"sunsubscribe":
            gone = [at for at, name in connection.channels.items() if name == message[1]]
            for number in gone:
                del connection.channels[number]
            self.pool.slots.doubt(None)
            if waiter is not None and waiter.channel == message[1]:
                waiter.lose_place()
            return
        slots, node = self.pool.slots, connection.node
        if waiter is not None and slots.disbelieves(message, waiter, node):
            waiter.lose_place()  # the flow asks, at the right node
            return
        super().pushed(connection, message)

    # -- where keys are -------------------------------------------------------------------------

    slot = staticmethod(slot)

    def place(self, key: bytes) -> object:
        """Return the node that a key is at, as far as is known."""
        return self.pool.slots.owner(slot(key))

    async def parts(self, until: float) -> Sequence[bytes]:
        """Return one key for each master."""
        self.pool.owner(b"", until)
        slots = self.pool.slots
        return [key_in(number) for number in slots.firsts()]

    async def fan(
        self, requests: Sequence[Request], until: float, waiter: Waiter | None = None
    ) -> list[Reply | Exception]:
        """Write many requests, then read their answers; who is redirected goes by itself."""
        answers: list[Reply | Exception] = []
        for start in range(0, len(requests), FAN_MAX):
            answers += await self._fan(requests[start : start + FAN_MAX], until, waiter)
        return answers

    async def _fan(
        self, requests: Sequence[Request], until: float, waiter: Waiter | None
    ) -> list[Reply | Exception]:
        first, seat = requests[0][1][0], None
        try:
            seat = self.pool.take_for(first, until) if waiter is None else self._seat(waiter)
            asked_at = now()
            answers = together(seat, requests, until)
            self.pool.confirm(first, seat.node, asked_at, until)
        except (Broken, FencelockError) as error:
            return [error for _ in requests]
        finally:
            if waiter is None and seat is not None:
                self.pool.give(seat)
        return await self._followed(seat, requests, answers, until, waiter)

    async def _followed(
        self,
        seat: Connection,
        requests: Sequence[Request],
        answers: list[Reply | Exception],
        until: float,
        waiter: Waiter | None = None,
    ) -> list[Reply | Exception]:
        """Return the answers, with those of requests that were redirected, from elsewhere."""
        for number, answer in enumerate(answers):
            if isinstance(answer, ReplyError):  # unknown script, or elsewhere
                try:
                    keys = requests[number][1]
                    own = waiter is not None and slot(keys[0]) == slot(waiter.key)
                    moves = waiter if own else None
                    answers[number] = await self.call(*requests[number], until, moves)
                except (Broken, FencelockError) as error:
                    answers[number] = error
            elif isinstance(answer, Broken):
                self.pool.slots.doubt(seat.node)
        return answers

    async def fan_out(
        self, groups: Sequence[Sequence[Request]], until: float
    ) -> list[list[Reply | Exception]]:
        """Write each group to its place, then read the answers in the order in which they come."""
        until = min(until, now() + ANSWER_SECONDS)
        seats: dict[Connection, Sequence[Request]] = {}
        answers: dict[int, list[Reply | Exception]] = {}
        try:
            # A connection that is there costs no wait, as to dial a silent node does.
            for group in sorted(groups, key=lambda each: not self._has_idle(each)):
                try:
                    seat = self.pool.take_for(group[0][1][0], until)
                    seats[seat] = group
                    write(seat, group)
                except (Broken, ServerError) as error:
                    answers[id(group)] = [error for _ in group]
            for seat in ready([seat for seat in seats if seat.sound], until):
                answers[id(seats[seat])] = self._read(seat, seats[seat], until)
        finally:
            for seat in seats:
                self.pool.give(seat)
        for seat, group in seats.items():
            await self._followed(seat, group, answers[id(group)], until)
        return [answers[id(group)] for group in groups]

    def _has_idle(self, group: Sequence[Request]) -> bool:
        node = self.pool.slots.sure(group[0][1][0])
        seat = None if node is None else self.pool.idle_at(node)
        if seat is None:
            return False
        self.pool.give(seat)
        return True

    def _read(
        self, seat: Connection, group: Sequence[Request], until: float
    ) -> list[Reply | Exception]:
        answers = read(seat, group, until)
        try:
            self.pool.confirm(group[0][1][0], seat.node, seat.asked_at, until)
        except (Broken, ServerError) as error:
            return [error for _ in group]
        return answers

    def aside(self, place: object, flow: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run a flow in a thread; False while one runs for this place, or none can be started."""
        return self._beside.run(place, flow)

    def renewed(self) -> None:
        """See that the tending thread is up for what was put back into the book."""
        with self._lock:
            next_at = self.book.next_at()
        if next_at is not None:
            self._tender.mind(next_at)
