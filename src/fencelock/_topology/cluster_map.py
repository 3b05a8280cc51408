"""Which node of a Cluster serves a key, and whether its answer counts.

Rules of this file:

- A node that fails makes the map of the slots doubtful; the next caller reads it from another node.
  Callers that need it meanwhile wait for this one reading, each until its own deadline.
- The question whether a node is still a master is shared, too: one caller asks for all.
- If the caller that asks is cancelled or runs out of time, the next one asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any

from fencelock._core.keys import slot
from fencelock._core.types import NoReply
from fencelock._topology.io import Latch, NodeIo
from fencelock._topology.slots import (
    MAP_SECONDS,
    PAUSE_SECONDS,
    READ_MAP,
    ClusterSource,
    NodeAddress,
    SlotMap,
)
from fencelock.errors import (
    FencelockError,
    ServerDenied,
    ServerError,
    ServerUnreachable,
    ServerUnsuitable,
)

Ask = Callable[[], Awaitable[bool | None]]
# One caller asks these for all: the map, and whether one node is a master.
_MAP = "the map of the Cluster"
# Error codes of a server where no process answers; temporary if the server is known to exist.
_UNREACHED = {"", "REFUSED"}


class _Question:
    """A question that one caller asks for all that need its answer now."""

    def __init__(self, about: object, caller: Hashable, latch: Latch) -> None:
        self.about = about
        self.caller = caller
        self.latch = latch
        self.known = False  # ``answer`` is there
        self.answer: bool | None = None
        self.error: Exception | None = None  # of the answer, not of the caller's own deadline


class ClusterMap:
    """The map of the slots, and the connections to the nodes that it names."""

    def __init__(self, cluster: ClusterSource, io: NodeIo) -> None:
        self._io = io
        self._questions: dict[object, _Question] = {}
        self.slots = SlotMap(cluster.seeds, cluster.remap, now=io.now)

    @property
    def node_seconds(self) -> float:
        """Return one node's time to answer, before another one is asked."""
        return self._io.trips.within(MAP_SECONDS)

    # -- connections ----------------------------------------------------------------------------

    async def lend(self, node: NodeAddress, until: float) -> Any:
        """Return a connection to a node; ends like ``NodeIo.lend``."""
        try:
            return await self._io.lend(node, until)
        except (NoReply, ServerError) as error:
            if self.is_away(node, error):
                raise NoReply(str(error), sent=False) from error
            raise

    def is_away(self, node: NodeAddress, error: Exception) -> bool:
        """Doubt the map after a failure to connect; return True if the node may come back."""
        if isinstance(error, ServerDenied) or not isinstance(error, (NoReply, ServerError)):
            return False
        self.slots.invalidate(node)
        refused = isinstance(error, ServerUnreachable) and error.code in _UNREACHED
        return refused and self.slots.known  # an address that was never reached may be wrong

    async def anywhere(self, until: float) -> Any:
        """Return a connection to any master."""
        await self._read(until)
        trouble: Exception | None = None
        try:
            for node in self.slots.masters:
                try:
                    return await self.lend(node, until)
                except (NoReply, ServerError) as error:
                    trouble = error
            raise trouble or _nowhere()
        finally:
            del trouble

    async def owner(self, key: bytes, until: float) -> NodeAddress:
        """Return the node of a key; NoReply when it cannot be found out now."""
        if self.slots.doubtful:
            await self._read(until)
        node = self.slots.owners[slot(key)]
        if node is None:
            self.slots.invalidate(None)
            raise NoReply("no node of the Cluster serves this slot", sent=False)
        return node

    # -- the map --------------------------------------------------------------------------------

    async def _read(self, until: float) -> None:
        """Read the map if it is in doubt; keep the known one if no node reports another."""
        slots = self.slots
        if slots.doubtful and self._io.now() - slots.read_at > PAUSE_SECONDS:
            await self._once(_MAP, partial(self._ask_around, until), until)

    async def _ask_around(self, until: float) -> None:
        trouble: Exception | None = None
        try:
            for node in list(self.slots.sources()):
                try:
                    await self._ask(node, min(until, self._io.now() + self.node_seconds))
                except ServerDenied:
                    raise  # every node would refuse, and more attempts could lock the account
                except (NoReply, ServerError) as error:
                    trouble = error
                    if self._io.now() >= until:
                        break
                else:
                    return
            if not self.slots.known:
                raise trouble or _nowhere()
            self.slots.read_at = self._io.now()
        finally:
            del trouble

    async def _ask(self, node: NodeAddress, until: float) -> None:
        connection = await self.lend(node, until)
        try:
            reply = await self._io.command(connection, READ_MAP, until)
        except NoReply:
            self.slots.invalidate(node)  # the next reading begins at another node
            raise
        except ServerError as error:
            if "cluster support disabled" not in str(error).lower():
                raise
            text = (
                "this server is not a node of a Cluster: use redis:// instead of redis+cluster://"
            )
            raise ServerUnsuitable(text) from error
        finally:
            self._io.at[node].give(connection)
        self.slots.learn(reply, node)

    # -- who is the master ----------------------------------------------------------------------

    async def confirm(self, key: bytes, node: NodeAddress, until: float) -> None:
        """Check that an answer came from a master; NoReply when other nodes deny it.

        Only for an answer that does not count by itself; see slots.py.
        """
        answered_at, proved = self._io.now(), True
        while proved and not self.slots.master_check.covers(node, answered_at):
            inquiry = partial(self._inquire, key, node, until)
            proved = bool(await self._once(node, inquiry, until))

    async def _inquire(self, key: bytes, node: NodeAddress, until: float) -> bool | None:
        """Return True if it was proved, None if no other node says; NoReply if others deny it."""

        async def named(other: NodeAddress) -> NodeAddress | None:
            return await self._named(other, key, until)

        slots = self.slots
        replicas = slots.followers.get(node, ())
        known = {node, *replicas}
        others = [each for each in (*slots.masters, *slots.replicas) if each not in known]
        agreed = await slots.master_check.inquire(node, replicas, others, named)
        if agreed is False:
            # What counts now is a map, from another node if possible; an older one proves nothing.
            slots.invalidate(node)
            await self._ask_around(until)
            if slots.doubtful or slots.owners[slot(key)] != node:
                raise NoReply(f"another node has taken the place of {node}", sent=True)
        return agreed

    async def _named(self, node: NodeAddress, key: bytes, until: float) -> NodeAddress | None:
        """Return the master of a key according to another node; None if that is silent.

        NoReply when the caller's time was up: then the node was not silent.
        """
        silent_at = min(until, self._io.now() + self.node_seconds)
        try:
            connection = await self.lend(node, silent_at)
        except (NoReply, ServerError):
            self._in_time(until)
            return None
        try:
            await self._io.command(connection, (b"GET", key), silent_at)  # every user of locks may
        except NoReply:
            self.slots.invalidate(node)
            self._in_time(until)
            return None
        except ServerError as error:
            return self.slots.named(error, node)
        finally:
            self._io.at[node].give(connection)
        return node

    def _in_time(self, until: float) -> None:
        """Raise NoReply if a node had too little time to answer: then it was not silent."""
        if self._io.now() >= until:
            raise NoReply("no node said in time which one is the master", sent=True)

    # -- once for all ---------------------------------------------------------------------------

    async def _once(self, about: object, ask: Ask, until: float) -> bool | None:
        """Ask something once for all callers that need it now; return the answer."""
        while True:
            question, mine = self._question(about)
            try:
                if mine:
                    return await self._asked(question, ask, until)
                if not await question.latch.wait_until(until):
                    sent = about != _MAP  # what must be proved was an answer
                    raise NoReply(f"{about} was not found out in time", sent=sent)
                if question.error is not None:
                    raise question.error
                if question.known:
                    return question.answer
            finally:
                del question

    def _question(self, about: object) -> tuple[_Question, bool]:
        """Return the question about something, and whether this caller must ask it.

        A finalizer that interrupts its own thread while that thread asks must ask as well.
        """
        fresh = _Question(about, self._io.caller(), self._io.latch())
        with self._io.mutex():
            asked = self._questions.get(about)
            if asked is not None and asked.caller != fresh.caller:
                return asked, False
            self._questions[about] = fresh
            return fresh, True

    async def _asked(self, question: _Question, ask: Ask, until: float) -> bool | None:
        try:
            question.answer = answer = await ask()
            question.known = True
            return answer
        except (NoReply, FencelockError) as error:
            if self._io.now() < until:
                question.error = error
            raise
        finally:
            with self._io.mutex():
                if self._questions.get(question.about) is question:
                    del self._questions[question.about]
            question.latch.open()
            del question


def _nowhere() -> NoReply:
    return NoReply("no node of the Cluster is known", sent=False)
