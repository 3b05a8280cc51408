"""A port's part for a Cluster: each request goes to the node that its keys are at.

Rules of this file:

- MOVED and ASK are followed at once, and the connection stays good: a redirected request did not
  run.
- A waiter listens at the node of its lock, because a script counts the listeners of that node only.
  When the lock's slot moves, its waiter's connection follows and keeps its channel, which the entry
  in the line names. A grant counts only on the waiter's own connection: another one may hear the
  same channel.
- What is pushed counts only if the master of its slot sent it; else it is a hint, and who waits
  asks there: see slots.py. That a lease was revoked is heard at any node, so it always is one.
- An attempt is given up after a second: then the map is read again, and the next attempt goes to
  the node that replaced the silent one.
- Requests to one node are written together, a bounded number at once; nodes are asked in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fencelock._core.deadlines import align_to_batch, align_to_part
from fencelock._core.engine import Engine
from fencelock._core.keys import slot
from fencelock._core.lock.maintain import Renewer
from fencelock._core.pushes import parsed, revoked
from fencelock._core.seat import Question, Seat
from fencelock._core.types import Call, NoReply, PackedCall, Reply, closed
from fencelock._io.wire import ReplyError, pack
from fencelock._runtime.log import log
from fencelock._topology.cluster_map import ClusterMap
from fencelock._topology.io import NodeConnections, NodeIo
from fencelock._topology.slots import (
    LOCAL,
    REDIRECTS_MAX,
    SLOTS,
    ClusterSource,
    NodeAddress,
    Redirect,
    SlotMap,
    in_slot,
    key_in,
    opened,
)
from fencelock.errors import FencelockError, ServerError
from fencelock.scripts import packed

if TYPE_CHECKING:
    from fencelock._core.lock.hold import Hold
    from fencelock._core.lock.renewal_schedule import Bucket, RenewalBatch

T = TypeVar("T")

# Requests that are written before the first answer is read: few enough for any socket's buffer, and
# for other requests on the same connection to get their turn.
FAN_MAX = 100
# How many channels a connection hears before idle ones are left: one for each slot with waiters.
CHANNELS_MAX = 256
ANYWHERE = -1  # in ``NodeConnection.channels``: a channel of no slot


class Batch(Question):
    """Calls at one node that are written together, and their answers."""

    raw = True
    node: NodeAddress | None

    def __init__(
        self, calls: Sequence[PackedCall], counts: Callable[[NodeAddress, float], bool]
    ) -> None:
        super().__init__(None, [request for request, _ in calls])
        self.key: bytes = calls[0][1]
        self.replies: list[Reply | Exception] = []
        self.proved = False  # the node was the master, as far as its answer says
        self._counts = counts

    def answer(self, reply: Reply, now: float) -> None:
        """Take the next answer."""
        if not self.replies:
            node = self.node
            self.proved = not self.key or (node is not None and self._counts(node, self.asked_at))
        self.replies.append(reply)
        self.answered_at, self.ended = now, len(self.replies) == len(self.requests)

    def fail(self, error: NoReply | FencelockError) -> None:
        """Take the error instead of the answers that are missing."""
        super().fail(error)
        self.replies += [error] * (len(self.requests) - len(self.replies))


class ClusterPort(Engine):
    """What an engine does otherwise in a Cluster.

    A subclass adds how a waiter uses a connection, and the methods of a port of one server.
    """

    closing: bool
    _io: NodeIo

    publishes = b"SPUBLISH"
    pipeline_max = FAN_MAX

    def _use(self, cluster: ClusterSource, io: NodeIo) -> None:
        """Begin with nothing known: at first, and in a child process."""
        self._io = io
        self._map = ClusterMap(cluster, io)
        self.slots: SlotMap = self._map.slots
        self._counts = self._map.slots.master_check.counts
        self._sharded = True  # until a server refuses sharded channels
        self._sharded_heard = False  # until a server has taken one
        # The nodes that are being asked in the background, and the leases that are due there next.
        self._waiting: dict[object, list[Bucket]] = {}

    # -- what a subclass does -------------------------------------------------------------------

    def sit(self, waiter: Seat, connection: Any) -> None:
        """Give a waiter a connection, its ``origin``, until ``close`` takes it back."""

    def tuned(self, waiter: Seat, connection: Any, word: bytes) -> bool:
        """Note that a waiter hears another program's channel, until ``close``; False if it did."""
        raise NotImplementedError

    def seated(self, connection: Any) -> Iterable[Seat]:
        """Return the waiters that use a connection."""
        raise NotImplementedError

    def seated_as(self, connection: Any, who: bytes) -> Seat | None:
        """Return the waiter of this id, if it uses this connection."""
        raise NotImplementedError

    # -- calls ----------------------------------------------------------------------------------

    async def command(
        self, args: Sequence[bytes | int], key: bytes, until: float, waiter: Seat | None = None
    ) -> Reply:
        """Run a plain command at the node of this key."""
        return await self.run(pack(args), key, until, waiter, proves=False)

    async def run(
        self,
        request: bytes,
        key: bytes,
        until: float,
        waiter: Seat | None = None,
        *,
        proves: bool = True,
        step: Redirect | None = None,
    ) -> Reply:
        """Run a packed script call at the node of its key, or where a ``step`` redirects it."""
        until = min(until, self._io.now() + self._io.trips.call)
        for _ in range(REDIRECTS_MAX):
            if waiter is None:
                at = None if step else self._nodes_of(key)
                connection = None if at is None else at.idle()
            else:
                connection = waiter.origin if step is None else None
            if connection is None or not connection.sound:
                connection = await self._connection(key, step, until, waiter)
            asking, asked_at = step is not None and step.asking, self._io.now()
            try:
                reply = await self._io.run(connection, request, until, asking=asking)
            except (NoReply, ServerError) as trouble:
                step = self._step_after(trouble, connection.node)
                if step is None:
                    raise
            else:
                # While a slot migrates (ASK) other nodes still name the old one: skip the check.
                proves = proves and not asking and bool(key)
                if proves and not self._counts(connection.node, asked_at):
                    await self._map.confirm(key, connection.node, until)
                return reply
            finally:
                if waiter is None:
                    self._io.at[connection.node].give(connection)
        raise NoReply("the slots of the Cluster move too fast to follow", sent=False)

    def _nodes_of(self, key: bytes) -> NodeConnections | None:
        """Return the connections to the node of a key; None if it is unknown, or there is none."""
        slots = self.slots
        return None if slots.doubtful else self._io.at.get(slots.owners[slot(key)])

    def _step_after(self, trouble: NoReply | ServerError, node: NodeAddress) -> Redirect | None:
        """Return where a request goes that a node has not taken; None if that is its error."""
        if isinstance(trouble, ServerError):
            return self.slots.redirect(trouble)
        self.slots.invalidate(node)
        return None

    async def _connection(
        self, key: bytes, step: Redirect | None, until: float, waiter: Seat | None
    ) -> Any:
        if waiter is None:
            node = await self._map.owner(key, until) if step is None else step.node
            return await self._map.lend(node, until)
        if step is not None:
            await self._follow(waiter, step, until)
        connection = waiter.origin
        if connection is None or not connection.sound:
            raise NoReply("the waiter's connection was lost", sent=False)
        return connection

    # -- waiting --------------------------------------------------------------------------------

    ask_for = Engine.ask_for

    async def open(self, waiter: Seat, until: float, *, listen: bool = True) -> None:
        """Give a waiter a connection to the right node; with ``listen``, one that listens.

        Listening costs a command for each slot, and most locks are free. So one that is not eager
        goes without, unless it is known that the lock is held.
        """
        if self.closing:
            raise closed()
        until = min(until, self._io.now() + self._io.trips.call)
        node = None if self.slots.doubtful else self.slots.owners[slot(waiter.key)]
        if node is None:
            node = await self._map.owner(waiter.key, until)
        connection, nodes = waiter.origin, self._io.at
        if connection is None and node in nodes:
            connection = nodes[node].idle()
            if connection is not None:
                self.sit(waiter, connection)
        if connection is None or not connection.sound or connection.node != node:
            await self._reconnect(waiter, node, until)
            connection = waiter.origin
        if not listen:
            return
        if connection.channels and not waiter.topic and self._hears(waiter, connection):
            return
        knows = waiter.eager or waiter.channel or waiter.topic  # that the lock is held
        if knows or waiter.key in self.lines.by_key:
            await self._listen_for(waiter, until, asking=False)

    def _hears(self, waiter: Seat, connection: Any) -> bool:
        """Return True if a connection listens to a channel for a waiter; note that channel.

        The first sharded channel may yet be refused. A waiter that asked with it would ask again
        with another one, and its first place in line would stay.
        """
        number, channel = self._channel(waiter, connection)
        unproven = number != ANYWHERE and not self._sharded_heard
        if unproven or connection.channels.get(number) != channel:
            return False
        waiter.channel = channel
        return True

    async def _reconnect(self, waiter: Seat, node: NodeAddress, until: float) -> None:
        self.close(waiter)
        self.sit(waiter, await self._map.lend(node, until))

    async def _follow(self, waiter: Seat, step: Redirect, until: float) -> None:
        """Move a waiter to where its request was redirected; NoReply if its channel changed."""
        connection, channel = waiter.origin, waiter.channel
        if connection is None or connection.node != step.node:
            await self._reconnect(waiter, step.node, until)
        if channel:
            await self._listen_for(waiter, until, asking=step.asking)
        if waiter.channel != channel:
            raise NoReply("the waiter listens to another channel now: ask anew", sent=False)

    def _channel(self, waiter: Seat, connection: Any) -> tuple[int, bytes]:
        """Return a waiter's channel on a connection, and the slot under which that notes it.

        It is of the waiter's slot, or of none if there are no sharded channels.
        """
        number = slot(waiter.key)
        name = waiter.channel
        if not name and self._sharded:
            name = connection.channels.get(number) or in_slot(connection.name, number) or b""
        if not name:
            name = connection.channels.get(ANYWHERE) or connection.name + LOCAL
        return ANYWHERE if name.endswith(LOCAL) else number, name

    async def _listen_for(self, waiter: Seat, until: float, *, asking: bool) -> None:
        """Have the waiter's connection listen; NoReply if the slot has moved: ask again."""
        connection = waiter.origin
        if waiter.topic:
            await self._tune(waiter, until, asking=asking)
            return
        if self._hears(waiter, connection):
            return
        number, channel = self._channel(waiter, connection)
        word = b"SUBSCRIBE" if channel.endswith(LOCAL) else b"SSUBSCRIBE"
        # before the answer: the end of the subscription may follow it at once
        connection.channels[number] = channel
        try:
            await self._io.subscribe(connection, channel, until, word, asking=asking)
        except BaseException as error:
            self._end_channel(connection, channel)
            if isinstance(error, NoReply):
                self.slots.invalidate(connection.node)
            if not isinstance(error, ServerError):
                raise
            if self.slots.redirect(error) is not None:
                raise NoReply(f"the slot has moved: {error}", sent=False) from error
            if error.code not in {"ERR", "NOPERM"} or number == ANYWHERE:
                raise
            self._sharded = False  # an old server, or the user may not
            log.info("no sharded channels: %s", error)
            waiter.channel = b""
            await self._listen_for(waiter, until, asking=asking)
            return
        if connection.channels.get(number) != channel:
            raise NoReply("the server ended the subscription at once", sent=False)
        self._sharded_heard = self._sharded_heard or number != ANYWHERE
        waiter.channel = channel

    async def _tune(self, waiter: Seat, until: float, *, asking: bool) -> None:
        """Have it hear another program's channel; NoReply if the slot has moved: ask again."""
        connection, word = waiter.origin, b"SSUBSCRIBE" if self._sharded else b"SUBSCRIBE"
        waiter.channel = waiter.topic
        if not self.tuned(waiter, connection, word):
            return
        try:
            await self._io.subscribe(connection, waiter.topic, until, word, asking=asking)
        except ServerError as error:
            if self.slots.redirect(error) is not None:
                raise NoReply(f"the slot has moved: {error}", sent=False) from error
            if error.code != "ERR" or not self._sharded:
                raise
            self._sharded = False  # an old server, where Redisson publishes to all nodes
            self.close(waiter)
            raise NoReply("no sharded channels", sent=False) from error

    def _end_channel(self, connection: Any, channel: bytes) -> None:
        """Note that a channel is no longer heard, and make its waiters ask again."""
        for number, name in list(connection.channels.items()):
            if name == channel:
                del connection.channels[number]
        connection.topics.pop(channel, None)
        self.rouse(waiter for waiter in self.seated(connection) if waiter.channel == channel)

    def taken(self, connection: Any, message: list[bytes]) -> list[bytes] | None:
        """Return the push that a port of one server would get; None when it was handled here.

        A channel that the server closed has moved with its slot.
        """
        if message[0] == b"sunsubscribe":
            self.slots.invalidate(None)
            self._end_channel(connection, message[1])
            return None
        if message[0] not in {b"message", b"smessage"}:
            return message
        sender, payload = opened(message[-1])
        kind, words = parsed(payload) or (b"", ())
        doubts = self._doubts.get(kind)
        if doubts is not None and doubts(self, connection, words, sender):
            return None
        return [b"message", message[1], payload]

    # -- what any node may have sent ------------------------------------------------------------

    def _doubt_grant(self, connection: Any, words: Sequence[bytes], sender: bytes) -> bool:
        """Return True if the waiter asks instead, at its own node."""
        waiter = self.seated_as(connection, words[0])
        if waiter is None or not self.slots.disbelieves(waiter, connection.node, sender):
            return False
        self.rouse([waiter])
        return True

    def _doubt_refusal(self, connection: Any, words: Sequence[bytes], sender: bytes) -> bool:
        """Return True if a try waits on for its moment: if it asked, the same would come again."""
        waiter = self.seated_as(connection, words[0])
        return waiter is not None and not self.slots.is_of_master(waiter.key, sender)

    def _doubt_signal(self, connection: Any, words: Sequence[bytes], sender: bytes) -> bool:
        """Return True if a waiter asks instead, for all of its client that it can ask for."""
        key = words[-1]
        if self.slots.is_of_master(key, sender):
            return False
        self.rouse(islice((each for each in self.seated(connection) if each.key == key), 1))
        return True

    def _doubt_revocation(self, _: Any, words: Sequence[bytes], __: bytes) -> bool:
        """Return True: the lease is renewed now instead, and its server says what it was."""
        revoked(self, words[0], None)
        return True

    _doubts: ClassVar[Mapping[bytes, Callable[[Any, Any, Sequence[bytes], bytes], bool]]] = {
        b"granted": _doubt_grant,
        b"busy": _doubt_refusal,
        b"signal": _doubt_signal,
        b"revoked": _doubt_revocation,
    }

    def lost(self, connection: Any) -> None:
        """Note that a connection was lost: its node may be lost, too."""
        self.slots.invalidate(connection.node)
        self.rouse(self.seated(connection))

    # -- where keys are -------------------------------------------------------------------------

    def by_slot(self, each: Sequence[T], key: Callable[[T], bytes], /) -> Mapping[int, Sequence[T]]:
        """Group what has these keys by the slots of the keys."""
        slots: dict[int, list[T]] = {}
        for one in each:
            slots.setdefault(slot(key(one)), []).append(one)
        return slots

    def align(self, hold: Hold, when: float, lease: float, /) -> float:
        """Have the leases of one slot be due together, once there are more leases than slots."""
        if self.renewals.size < SLOTS:
            return align_to_batch(when, lease)
        return align_to_part(when, lease, slot(hold.terms.keys.lock))

    def node_of(self, key: bytes) -> object:
        """Return the node of a key, as far as is known."""
        return self.slots.owners[slot(key)]

    async def parts(self, until: float) -> Sequence[bytes]:
        """Return one key for each master."""
        await self._map.owner(b"", until)
        owners = self.slots.owners
        return [key_in(owners.index(node)) for node in self.slots.masters if node in owners]

    # -- many requests --------------------------------------------------------------------------

    async def run_packed(
        self, requests: Sequence[PackedCall], until: float, waiter: Seat | None = None
    ) -> list[Reply | Exception]:
        """Write many requests, then collect their answers; a redirected one is sent separately."""
        answers: list[Reply | Exception] = []
        for start in range(0, len(requests), FAN_MAX):
            (some,) = await self._run_groups([requests[start : start + FAN_MAX]], until, waiter)
            answers += some
        return answers

    async def side_by_side(
        self, calls: Sequence[Call], until: float, /
    ) -> Sequence[Reply | Exception]:
        """Write what is for each node, then collect the answers as they come."""
        nodes: dict[object, list[int]] = {}
        for number, (_, keys, _) in enumerate(calls):
            node = self.node_of(keys[0])
            nodes.setdefault(number if node is None else node, []).append(number)
        groups = [
            [(packed(*calls[number]), calls[number][1][0]) for number in numbers]
            for numbers in nodes.values()
        ]
        answers = chain(*await self._run_groups(groups, until, None))
        by_number = dict(zip(chain(*nodes.values()), answers, strict=True))
        return [by_number[number] for number in range(len(calls))]

    async def _run_groups(
        self, groups: Sequence[Sequence[PackedCall]], until: float, waiter: Seat | None
    ) -> list[list[Reply | Exception]]:
        began = self._io.now()
        until = min(until, began + self._io.trips.call)
        batches = [await self._batch(group, until, waiter) for group in groups]
        asks = [each for each in batches if not each.ended]

        def limit() -> float:
            """Leave time to confirm an answer that does not count by itself."""
            doubted = any(each.answered_at and not each.proved for each in asks)
            return until - (until - began) / 4 if doubted else until

        try:
            await self._io.exchange(asks, until, limit)
        finally:
            if waiter is None:
                self._io.put_back(asks)
        return [
            [
                await self._followed(call, answer, until, waiter)
                for call, answer in zip(group, await self._believed(batch, until), strict=True)
            ]
            for group, batch in zip(groups, batches, strict=True)
        ]

    async def _batch(self, group: Sequence[PackedCall], until: float, waiter: Seat | None) -> Batch:
        """Return what to ask the node of a group, or what has failed."""
        batch = Batch(group, self._counts)
        try:
            if waiter is None:
                batch.node = await self._map.owner(batch.key, until)
            else:
                batch.connection = await self._connection(batch.key, None, until, waiter)
                batch.node = batch.connection.node
        except (NoReply, FencelockError) as error:
            batch.fail(error)
        return batch

    async def _believed(self, batch: Batch, until: float) -> list[Reply | Exception]:
        """Return the answers, if they come from a master."""
        answers = batch.replies
        if batch.error is not None and batch.node is not None:
            if not batch.began and self._map.is_away(batch.node, batch.error):
                return [NoReply(str(batch.error), sent=False)] * len(answers)
            if batch.began:
                self.slots.invalidate(batch.node)
        if batch.answered_at and not batch.proved and batch.node is not None:
            try:
                await self._map.confirm(batch.key, batch.node, until)
            except (NoReply, ServerError) as error:
                return [error] * len(answers)
        return answers

    async def _followed(
        self, call: PackedCall, answer: Reply | Exception, until: float, waiter: Seat | None
    ) -> Reply | Exception:
        """Return the answer; ask again if the script was unknown or the slot has moved."""
        if not isinstance(answer, ReplyError):
            return answer
        request, key = call
        own = waiter is not None and slot(key) == slot(waiter.key)
        try:
            return await self.run(request, key, until, waiter if own else None)
        except (NoReply, FencelockError) as error:
            return error

    def settles(self, undo_connection: Any, key: bytes, asked_at: float) -> bool:
        """Return True if the answer to a clean-up on its undo connection counts.

        Otherwise the clean-up goes to the slot's master again: this node may have been replaced.
        """
        return not key or self._counts(undo_connection.node, asked_at)

    # -- beside ---------------------------------------------------------------------------------

    async def renew_at(self, node: object, batches: Sequence[RenewalBatch], /) -> bool:
        """Renew leases in the background, or once those that are being renewed at this node are."""
        with self.mutex:
            waiting = self._waiting.get(node)
            if waiting is not None:
                for batch in batches:
                    end = batch.shortest.deadline  # if it has to wait for so long, it is lost
                    waiting.append(self.renewals.add_apart(batch, end))
                return True
            self._waiting[node] = []
        begun = False
        try:
            begun = self._io.spawn(partial(self._beside, node, batches), "fencelock-leases-part")
        finally:
            if not begun:
                del self._waiting[node]
        return begun

    async def _beside(self, node: object, batches: Sequence[RenewalBatch]) -> None:
        try:
            # No other lease waits for it.
            await Renewer(self).renew_node(batches, lambda _horizon: inf)
        finally:
            with self.mutex:
                for bucket in self._waiting.pop(node, ()):
                    self.renewals.hasten(bucket, self._io.now())
                next_at = self.renewals.next_at()
            if next_at is not None:
                self.attend_by(next_at)
