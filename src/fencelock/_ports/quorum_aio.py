"""The asyncio port of a quorum: one ordinary port per node, and tasks that ask them all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from fencelock._core.fan import Ask
from fencelock._core.hold import Hold
from fencelock._core.keys import roster_key
from fencelock._core.quorum_hold import let_go
from fencelock._core.renew import lose_all
from fencelock._core.roster import Roster, parse_info
from fencelock._core.types import Args, Broken, Keys, Reply
from fencelock._core.votes import FIRST_FACTOR, majority
from fencelock._ports.aio import CLOSE_SECONDS, AioPort
from fencelock._ports.link import Link
from fencelock._topology.flows.quorum import QUORUM
from fencelock._transport.mux import Mux
from fencelock._transport.quorum import Several
from fencelock.clock import now
from fencelock.errors import FencelockError
from fencelock.mutex import mutex
from fencelock.scripts import Script

# After such a silence a connection is given up; a busy loop is silent, too.
STALL_SECONDS = 1.0

Saw = Callable[[bytes, float, float], None]


class _NodeLink(Link):
    """The connection to one node, which says who it is each time it is dialled."""

    saw: Saw

    async def _dial(self) -> Mux:
        self._reached = False  # who refuses connections is not asked again: there are others
        mux = await super()._dial()
        try:
            asked_at = now()
            told = await mux.command((b"INFO", b"server"), asked_at + self._patience)
        except BaseException as error:
            mux.close()
            if isinstance(error, Broken):
                raise Broken(str(error), sent=False) from error.__cause__
            raise
        self.saw(*parse_info(told), asked_at)
        return mux


class _NodePort(AioPort):
    """The port of one node."""

    def __init__(
        self, several: Several, number: int, *, home: str, patience: float, saw: Saw
    ) -> None:
        source = several.sources[number]
        super().__init__(source, home=home, patience=patience)
        self.link = link = _NodeLink(
            source, self.home, self._pushed, self._unplugged, patience=STALL_SECONDS
        )
        link.saw = saw


class AioQuorum(AioPort):
    """Implements ``_core.fan.QuorumPort`` for the tasks of one event loop."""

    flows = QUORUM

    def __init__(
        self, several: Several, *, prefix: str, home: str, patience: float, node_timeout: float
    ) -> None:
        super().__init__(several, home=home, patience=patience)  # type: ignore[arg-type]  # nothing is dialled
        self.labels = several.labels
        self.needed = majority(len(several.sources))
        self.node_timeout = node_timeout
        self.roster_key = roster_key(prefix)
        self.ill: dict[int, float] = {}
        self.roster = Roster(len(several.sources))
        self.nodes = [
            _NodePort(
                several,
                number,
                home=home,
                patience=node_timeout * FIRST_FACTOR,
                saw=self._seen(number),
            )
            for number in range(len(several.sources))
        ]

    def _seen(self, number: int) -> Saw:
        roster = self.roster
        return lambda run_id, uptime, asked_at: roster.saw(number, run_id, uptime, asked_at)

    # -- all at once ----------------------------------------------------------------------------

    async def fan(self, asks: Sequence[Ask], latest: float, limit: Callable[[], float]) -> None:
        """Ask each node in a task of its own."""
        tasks = {self.loop.create_task(self._ask(ask, latest)) for ask in asks}
        try:
            while tasks:
                left = max(0.0, limit() - now())
                done, tasks = await asyncio.wait(
                    tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                if not done and left == 0:
                    break
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
        for ask in asks:
            if not ask.ended:
                ask.fail(Broken("no answer in time", sent=ask.began, trail=ask.node))

    async def _ask(self, ask: Ask, latest: float) -> None:
        node = self.nodes[ask.node]
        try:
            await node.open(ask, latest, listen=False)
            ask.asked_at = now()
            ask.begin()
            ask.answer(await node.call(*ask.request, latest), now())
        except (Broken, FencelockError) as error:
            ask.fail(error)

    # -- what is not asked of one server ----------------------------------------------------------

    async def call(self, script: Script, *_: Any, **__: Any) -> Reply:
        """Refuse: a flow that asks one server has no business here."""
        raise RuntimeError(f"{script.name}: a quorum is not one server")

    def post(self, script: Script, keys: Keys, args: Args, trail: object = None) -> None:
        """Send to every node."""
        del trail  # the nodes' own requests have them
        for node in self.nodes:
            node.post(script, keys, args)

    # -- leases ---------------------------------------------------------------------------------

    def _listen_soon(self) -> None:
        """Leave it to the nodes' ports to hear of revocations."""

    def move(self, hold: Hold, when: float) -> None:
        """Have a hold get attention at another instant."""
        if hold.open and not hold.told:
            with mutex():
                self.book.discard(hold)
                self.book.add(hold, when)
            self._set_timer(when)

    # -- ends -----------------------------------------------------------------------------------

    async def shut(self) -> None:
        """Close all nodes' ports; who holds keeps its lease until it ends."""
        self.closing = True
        let_go(self.book.minded())
        lose_all(self, "closed")
        await asyncio.sleep(0)  # holders are notified in a turn of their own
        await asyncio.gather(*[node.shut() for node in self.nodes])
        told = {task for task in self._tasks if task.get_name() == "fencelock-on-lost"}
        if told:
            await asyncio.wait(told, timeout=CLOSE_SECONDS)
        for timer in (self._timer, self._ticking):
            if timer is not None:
                timer.cancel()
        for task in self._tasks:
            task.cancel()
        self.link.closed = True
