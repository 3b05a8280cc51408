"""The asyncio port for a Cluster: one multiplexed connection for each node that is asked.

Rules of this file: those of ``cluster.py``, and

- An undo goes out behind its request, on the same connection: a waiter's ``trail``.
- A channel is heard on one connection only: else one message would be two grants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fencelock._core.keys import slot
from fencelock._core.types import Args, Broken, Keys, Reply, Request
from fencelock._core.waiter import Waiter
from fencelock._ports.aio import POST_SECONDS, TRAIL_SECONDS, AioPort
from fencelock._ports.cluster_links import ClusterLinks, NodeLink
from fencelock._ports.cluster_mux import Ask, ask_next, plain, scripted
from fencelock._ports.pool import closed
from fencelock._topology.flows.cluster import CLUSTER
from fencelock._transport.cluster import (
    ANSWER_SECONDS,
    LOCAL,
    REDIRECTS_MAX,
    Redirect,
    in_slot,
    is_grant,
    key_in,
)
from fencelock._transport.mux import Mux
from fencelock._transport.wire import (
    pack_call,
    pack_source,
)
from fencelock.clock import now
from fencelock.errors import FencelockError, ServerError
from fencelock.log import log
from fencelock.scripts import Script


class ClusterAioPort(AioPort):
    """Implements ``_core.port.Port`` for the tasks of one loop, over a Cluster."""

    link: ClusterLinks

    flows = CLUSTER

    def _new_link(self) -> ClusterLinks:
        self._sharded = True  # until a server does not know sharded channels
        self._seats: dict[bytes, NodeLink] = {}
        self._beside: set[object] = set()
        told = (self._pushed_from, self._unplugged_from)
        return ClusterLinks(self.source, self.home, *told, patience=self.patience)

    # -- calls ----------------------------------------------------------------------------------

    async def call(
        self, script: Script, keys: Keys, args: Args, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a script at the node of its keys; the waiter listens there from then on."""
        return await self._routed(keys[0], scripted(pack_call(script, keys, args)), until, waiter)

    async def run(
        self, request: bytes, key: bytes, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a packed script call at the node of its key."""
        return await self._routed(key, scripted(request), until, waiter)

    async def command(
        self, args: Sequence[bytes | int], key: bytes, until: float, waiter: Waiter | None = None
    ) -> Reply:
        """Run a plain command at the node of this key."""
        return await self._routed(key, plain(args), until, waiter, proves=False)

    async def _routed(
        self, key: bytes, ask: Ask, until: float, waiter: Waiter | None, *, proves: bool = True
    ) -> Reply:
        until = min(until, now() + ANSWER_SECONDS)
        step: Redirect | None = None
        for _ in range(REDIRECTS_MAX):
            link = await self._link_for(key, step, until, waiter)
            mux = await self._connected(link, until)
            if waiter is not None:
                waiter.trail = mux
            asking, asked_at = step is not None and step.asking, now()
            try:
                reply = await ask(mux, until, asking=asking)
            except Broken:
                self.link.slots.doubt(link.node)
                raise
            except ServerError as error:
                step = self.link.slots.redirect(error)
                if step is None:
                    raise
            else:
                if proves and not asking:  # the others name a slot's old node until it has moved
                    await self.link.confirm(key, link.node, asked_at, until)
                return reply
        raise Broken("the slots of the Cluster move too fast to follow", sent=False)

    async def _link_for(
        self, key: bytes, step: Redirect | None, until: float, waiter: Waiter | None
    ) -> NodeLink:
        if step is None:
            seated = None if waiter is None else self._seats.get(waiter.want.waiter)
            return seated or self.link.sure(key) or await self.link.owner(key, until)
        link = self.link.at(step.node)
        if waiter is not None and (named := waiter.channel):
            await self._listen(waiter, link, until, asking=step.asking)
            if waiter.channel != named:
                raise Broken("the waiter listens elsewhere now: ask anew", sent=False)
        return link

    async def _connected(self, link: NodeLink, until: float) -> Mux:
        mux = link.mux
        if mux is not None and mux.sound:
            return mux
        try:
            return await link.connected(until)
        except (Broken, ServerError):
            self.link.slots.doubt(link.node)
            raise

    # -- waiting --------------------------------------------------------------------------------

    def seat(self, waiter: Waiter, *, listen: bool) -> bool:
        """Register a waiter when the right node is connected, and listens."""
        link = self.link.sure(waiter.key)
        if self.closing or link is None:
            return False
        if not listen:
            self._seats.pop(waiter.want.waiter, None)
            return True
        channel = waiter.channel or self._channel(link, waiter)
        if channel not in link.heard:
            return False
        self._register(waiter, link, channel)
        return True

    async def open(self, waiter: Waiter, until: float, *, listen: bool = True) -> None:
        """Register a waiter at the right node, under a channel that is heard there."""
        if self.closing:
            raise closed()
        until = min(until, now() + ANSWER_SECONDS)
        link = await self.link.owner(waiter.key, until)
        if listen:
            await self._listen(waiter, link, until, asking=False)
        else:
            self._seats.pop(waiter.want.waiter, None)
            await self._connected(link, until)

    def _register(self, waiter: Waiter, link: NodeLink, channel: bytes) -> None:
        waiter.channel = channel
        self._waiters[waiter.want.waiter] = waiter
        self._seats[waiter.want.waiter] = link

    def _channel(self, link: NodeLink, waiter: Waiter) -> bytes:
        """Return the channel of the waiter's slot, or this node's where there are none."""
        shard = in_slot(self.home, slot(waiter.key)) if self._sharded else None
        return shard or b"%b.%d%b" % (self.home, link.number, LOCAL)

    async def _listen(self, waiter: Waiter, link: NodeLink, until: float, *, asking: bool) -> None:
        """Have a node tell the waiter; Broken when the slot has gone elsewhere: ask again."""
        await self._connected(link, until)
        channel = self._channel(link, waiter)
        word = b"SUBSCRIBE" if channel.endswith(LOCAL) else b"SSUBSCRIBE"
        try:
            if asking and channel not in link.heard and link.mux is not None:
                ask_next(link.mux, until)
            await link.hear(channel, word, until)
        except Broken:
            self.link.slots.doubt(link.node)
            raise
        except ServerError as error:
            if error.code in {"ERR", "NOPERM"} and word == b"SSUBSCRIBE":
                self._sharded = False  # an old server, or the user may not
                log.info("no sharded channels: %s", error)
                return await self._listen(waiter, link, until, asking=asking)
            if self.link.slots.redirect(error) is None:
                raise
            raise Broken(f"the slot has moved: {error}", sent=False) from error
        self._register(waiter, link, channel)
        return None

    def close(self, waiter: Waiter) -> None:
        """Forget a waiter; leave channels when many are idle."""
        link = self._seats.pop(waiter.want.waiter, None)
        super().close(waiter)
        if link is not None and len(link.heard) > link.room:
            here = [who for who, seat in self._seats.items() if seat is link]
            link.leave_idle({each.channel for who in here if (each := self._waiters.get(who))})

    def _pushed_from(self, link: NodeLink, message: list[bytes]) -> None:
        """Take a push; a channel that the server closed went elsewhere with its slot."""
        if message[0] == b"smessage":
            message = [b"message", *message[1:]]
        elif message[0] == b"sunsubscribe":
            link.drop(message[1])
            self.link.slots.doubt(None)
            self._rouse_at(link, message[1])
            return
        waiter = self._waiters.get(message[-1].split(b" ", 2)[1]) if is_grant(message) else None
        slots = self.link.slots
        if waiter is not None and slots.disbelieves(message, waiter, link.node):
            waiter.lose_place()  # the flow asks, at the right node
            self.wake(waiter)
            return
        self._pushed(message)

    def _unplugged_from(self, link: NodeLink) -> None:
        self._rouse_at(link)
        if self.book.busy and not self.link.listening:
            self._listen_soon()

    def _rouse_at(self, link: NodeLink, channel: bytes = b"") -> None:
        """Send waiters back to ask: all of a node, or those who listened to one channel."""
        for who, waiter in list(self._waiters.items()):
            if self._seats.get(who) is link and channel in {b"", waiter.channel}:
                waiter.lose_place()
                self.wake(waiter)

    # -- where keys are -------------------------------------------------------------------------

    slot = staticmethod(slot)

    def place(self, key: bytes) -> object:
        """Return the node that a key is at, as far as is known."""
        return self.link.slots.owner(slot(key))

    async def parts(self, until: float) -> Sequence[bytes]:
        """Return one key for each master."""
        await self.link.owner(b"", until)
        return [key_in(number) for number in self.link.slots.firsts()]

    async def fan(
        self, requests: Sequence[Request], until: float, waiter: Waiter | None = None
    ) -> list[Reply | Exception]:
        """Write all requests in one turn of the loop; the answers come as they come."""
        began = now()
        answers = await asyncio.gather(*[self._one(each, until, waiter) for each in requests])
        if any(isinstance(answer, Broken) for answer in answers):
            link = self.link.sure(requests[0][1][0])
            if link is not None and link.mux is not None and link.mux.silent_since(began):
                link.mux.retire()  # the next try must not wait on a connection that went silent
        return answers

    async def fan_out(
        self, groups: Sequence[Sequence[Request]], until: float
    ) -> list[list[Reply | Exception]]:
        """Write all requests in one turn of the loop, to every place."""
        return await asyncio.gather(*[self.fan(group, until) for group in groups])

    async def _one(
        self, request: Request, until: float, waiter: Waiter | None
    ) -> Reply | Exception:
        own = waiter is not None and slot(request[1][0]) == slot(waiter.key)
        try:
            return await self.call(*request, until, waiter if own else None)
        except (Broken, FencelockError) as error:
            return error

    def aside(self, place: object, flow: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run a flow in a task; False while one runs for this place."""
        if place in self._beside or self.link.closed:
            return False
        self._beside.add(place)

        async def runs() -> None:
            try:
                await flow()
            finally:
                self._beside.discard(place)
                self._set_timer(self._next_at())

        self._spawn(runs(), "fencelock-leases-part")
        return True

    # -- clean-ups ------------------------------------------------------------------------------

    def post(self, script: Script, keys: Keys, args: Args, trail: object = None) -> None:
        """Write the request at once, behind the trail; see to its answer in a task."""
        if self.loop.is_closed() or self.link.closed:
            return
        mux = trail if isinstance(trail, Mux) and trail.open else None
        if mux is None and (link := self.link.sure(keys[0])) is not None:
            mux = link.mux
        answer = None
        if mux is not None:
            until = now() + (TRAIL_SECONDS if mux.retired else POST_SECONDS)
            answer = mux.behind(pack_source(script, keys, args), until)
        self._spawn(self._deliver(script, keys, args, answer), "fencelock-post")
