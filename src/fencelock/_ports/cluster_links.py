"""The asyncio port's connections to a Cluster: one link for each node, and the map of the slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from fencelock._core.keys import slot
from fencelock._core.types import Broken
from fencelock._ports.link import Link
from fencelock._ports.pool import closed
from fencelock._transport.cluster import (
    MAP_SECONDS,
    READ_MAP,
    SLOTS,
    Clustered,
    SlotMap,
    replaced,
    unsuitable,
)
from fencelock._transport.cluster_proof import Node
from fencelock._transport.mux import Mux
from fencelock._transport.wire import ReplyError
from fencelock.clock import now
from fencelock.errors import ServerDenied, ServerError, ServerUnreachable
from fencelock.log import log

# Channels of a connection, one for each slot that was waited for, before idle ones are left.
CHANNELS_MAX = 256

Pushed = Callable[["NodeLink", list[bytes]], None]
Unplugged = Callable[["NodeLink"], None]


class NodeLink(Link):
    """A connection to one node, and the channels that are heard on it."""

    def __init__(
        self, links: ClusterLinks, node: Node, home: bytes, number: int, *, patience: float
    ) -> None:
        super().__init__(
            links.cluster.at(node),
            home,
            lambda message: links.pushed(self, message),
            lambda: self._gone(links),
            patience=patience,
        )
        self.node = node
        self.number = number  # tells this client's links apart
        self.heard: set[bytes] = set()
        self._dropped: set[bytes] = set()  # since they were last asked for
        self.room = CHANNELS_MAX  # channels that may be heard before idle ones are left

    def _gone(self, links: ClusterLinks) -> None:
        self.heard.clear()
        links.slots.doubt(self.node)
        links.unplugged(self)

    async def connected(self, until: float) -> Mux:
        """Return the sound connection; that nobody answers at a node that is known may pass."""
        self._reached = self._reached or self.known
        return await super().connected(until)

    known = False

    async def hear(self, channel: bytes, word: bytes, until: float) -> None:
        """Listen to a channel; ends like ``Port.call``."""
        if channel in self.heard:
            return
        mux = await self.connected(until)
        self._dropped.discard(channel)
        await mux.subscribe(channel, until, word)
        if channel in self._dropped:
            raise Broken("the server ended the subscription at once", sent=False)
        if mux is self.mux and mux.sound:
            self.heard.add(channel)

    def leave_idle(self, busy: Collection[bytes]) -> None:
        """Listen no more to channels that none of ``busy`` is; one refusal, and none is left again.

        One command each: so it is done for many at once, and seldom.
        """
        mux, idle = self.mux, [each for each in self.heard if each not in busy]
        self.room = max(CHANNELS_MAX, 2 * (len(self.heard) - len(idle)))
        if mux is None or not mux.sound:
            return
        self.heard.difference_update(idle)
        for each in idle:
            mux.leave(each, now() + self._patience).add_done_callback(self._left)

    def _left(self, answer: asyncio.Future[Any]) -> None:
        if answer.exception() is None and isinstance(answer.result(), ReplyError):
            self.room = SLOTS  # the user may not
            log.info("could not unsubscribe from channels: %s", answer.result())

    def drop(self, channel: bytes) -> None:
        """Note that the server ended a subscription, which may be about to be noted as made."""
        self.heard.discard(channel)
        self._dropped.add(channel)


class ClusterLinks(Link):
    """Links to all nodes, found by what is to be asked there."""

    def __init__(
        self,
        cluster: Clustered,
        home: bytes,
        pushed: Pushed,
        unplugged: Unplugged,
        *,
        patience: float,
    ) -> None:
        first = cluster.at(cluster.seeds[0])
        super().__init__(first, home, lambda _: None, lambda: None, patience=patience)
        self.cluster = cluster
        self.pushed = pushed
        self.unplugged = unplugged
        self.slots = SlotMap(cluster.seeds, cluster.remap)
        self._links: dict[Node, NodeLink] = {}
        self._reading: asyncio.Task[None] | None = None
        self._inquiries: dict[Node, asyncio.Task[bool]] = {}

    # -- what AioPort asks of its link ----------------------------------------------------------

    @property
    def listening(self) -> bool:
        """Return True if the home channel is heard, at any node: revocations go to all."""
        return any(link.listening for link in self._links.values())

    @listening.setter
    def listening(self, _: bool) -> None:
        """Leave it to the links."""

    @property
    def connected_now(self) -> bool:
        """Return True while there is a sound connection to any node."""
        return any(link.connected_now for link in list(self._links.values()))

    async def listen(self, until: float) -> None:
        """Hear the home channel at any master."""
        await self._read_map(until)
        trouble: Exception | None = None
        for node in self.slots.masters:
            try:
                await self.at(node).listen(min(until, now() + MAP_SECONDS))
            except (Broken, ServerError) as error:
                trouble = error
            else:
                return
        raise trouble or _nowhere()

    async def close(self) -> None:
        """Close all links for good."""
        self.closed = True
        reading = [] if self._reading is None else [self._reading]
        under_way = [task for task in (*reading, *self._inquiries.values()) if not task.done()]
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)
        for link in list(self._links.values()):
            await link.close()

    # -- nodes ----------------------------------------------------------------------------------

    def at(self, node: Node) -> NodeLink:
        """Return the link to a node."""
        link = self._links.get(node)
        if link is None:
            number = len(self._links)
            link = NodeLink(self, node, self._home, number, patience=self._patience)
            link.closed = self.closed
            self._links[node] = link
        link.known = self.slots.known
        return link

    def sure(self, key: bytes) -> NodeLink | None:
        """Return the link to the node that a key is at, when that is known and connected."""
        node = self.slots.sure(key)
        link = None if node is None else self._links.get(node)
        return link if link is not None and link.mux is not None and link.mux.sound else None

    async def owner(self, key: bytes, until: float) -> NodeLink:
        """Return the link to the node that a key is at; Broken when nobody can tell now."""
        if self.closed:
            raise closed()
        if self.slots.doubtful:
            await self._read_map(until)
        node = self.slots.owner(slot(key))
        if node is None:
            self.slots.doubt(None)
            raise Broken("no node of the Cluster serves this slot", sent=False)
        return self.at(node)

    async def _read_map(self, until: float) -> None:
        """Read the map if it is in doubt, once for all who ask; in a task: callers come and go."""
        if not self.slots.wants_reading():
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._ask_around(), name="fencelock-map")
            self._reading.add_done_callback(_seen)
        reading = self._reading
        await asyncio.wait({reading}, timeout=max(0.0, until - now()))
        if not reading.done():
            raise Broken("the map of the Cluster was not read in time", sent=False)
        if reading.cancelled():
            raise closed()
        reading.result()

    async def _ask_around(self) -> None:
        trouble: Exception | None = None
        for node in list(self.slots.sources()):
            try:
                await self._ask(node, now() + MAP_SECONDS)
            except ServerDenied:
                raise  # it would be so everywhere, and asking on would lock the account
            except (Broken, ServerError) as error:
                trouble = error
            else:
                return
        if not self.slots.known:
            raise trouble or _nowhere()
        self.slots.read_at = now()

    async def _ask(self, node: Node, until: float) -> None:
        if self.closed:
            raise closed()
        mux = await self.at(node).connected(until)
        try:
            self.slots.learn(await mux.command(READ_MAP, until), node)
        except ServerUnreachable:
            raise
        except ServerError as error:
            raise unsuitable(error) from error

    # -- who is the master ----------------------------------------------------------------------

    async def confirm(self, key: bytes, node: Node, asked_at: float, until: float) -> None:
        """See that the answer that came just now is a master's; Broken when others say it is none.

        See cluster_proof.py. All who want to know it of one node at once ask once.
        """
        if not key or self.slots.proofs.counts(node, asked_at):
            return
        answered_at = now()
        proved = True
        while proved and not self.slots.proofs.covers(node, answered_at):
            inquiry = self._inquiries.get(node) or self._new_inquiry(key, node)
            await asyncio.wait({inquiry}, timeout=max(0.0, until - now()))
            if not inquiry.done():
                raise Broken(f"no node said in time whether {node} is still a master", sent=True)
            if inquiry.cancelled():
                raise closed()
            proved = inquiry.result()

    def _new_inquiry(self, key: bytes, node: Node) -> asyncio.Task[bool]:
        inquiry = asyncio.create_task(self._inquire(key, node), name="fencelock-inquiry")
        inquiry.add_done_callback(_seen)
        inquiry.add_done_callback(lambda _: self._inquiries.pop(node, None))
        self._inquiries[node] = inquiry
        return inquiry

    async def _inquire(self, key: bytes, node: Node) -> bool:
        """Return True if it was proved, False if no other node knows; Broken if others deny it."""
        inquiry = self.slots.inquire(node)
        try:
            asked = next(inquiry)
            while True:
                asked = inquiry.send(await self._named(asked, key))
        except StopIteration as end:
            if end.value is False:
                await self._see_replaced(key, node)
            return bool(end.value)

    async def _see_replaced(self, key: bytes, node: Node) -> None:
        """Read the map, from another node if there is one; Broken unless that names this node."""
        self.slots.doubt(node)
        await self._ask_around()
        if self.slots.owner(slot(key)) != node:
            raise replaced(node)

    async def _named(self, node: Node, key: bytes) -> Node | None:
        """Return whom a node takes for the master of a key; None when it does not tell."""
        until = now() + MAP_SECONDS
        try:
            mux = await self.at(node).connected(until)
            await mux.command((b"GET", key), until)  # whoever has locks may
        except Broken:
            self.slots.doubt(node)
            return None
        except ServerError as error:
            return self.slots.named(error, node)
        return node


def _seen(reading: asyncio.Task[None] | asyncio.Task[bool]) -> None:
    """Take the error that everybody stopped waiting for."""
    if not reading.cancelled():
        reading.exception()


def _nowhere() -> Broken:
    return Broken("no node of the Cluster is known", sent=False)
