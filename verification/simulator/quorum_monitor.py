"""Watches a lock of a quorum: what its holders prove, and what each node has.

Rules of this file:

- A holder is a process that can prove a lease by its own clock: never two at once (I1). A body
  that does not look relies on the deadline that it saw last: nobody else holds before that, or
  before its release.
- A lease is proved for no longer than a majority of the nodes gave it, renewals and all; a node
  that forgot did give it (I2). A holder that cannot prove it any more is notified at once (I8).
- Nobody waits while a majority could be had, beyond a bound (I6).
- At the end no node has anything of anyone who lives (I9), and nothing ever lies for ever (I10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS, validity
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.quorum.membership import known_as
from verification.simulator.keyspace import NEVER, Frozen
from verification.simulator.monitor import Monitor, Violation
from verification.simulator.network import Client, Link, Task, World
from verification.simulator.server import EPOCH_US, Request, Server
from verification.simulator.view import View, at

# While a majority is free, a waiter is granted within this after a fault.
UNSERVED_US_MAX = 6_000_000
# A keeper has its timer at the deadline, and time passes only when it has run.
TOLD_WITHIN_SECONDS = 0.001
# A node that was restarted does not vote for the longest ttl since it was seen, and a slack.
AFTER_RESTART_US = 5_000_000
# Answers that take no time leave a lease as long as it was asked for, but for a moment's pause.
ASKING_SECONDS_MAX = 0.15
# Without any fault only a lease may end with nobody told.
UNSERVED_US_MAX_FAULTLESS = 1_000_000


def proves(client: Client, hold: Hold, later: float = 0.0) -> bool:
    """Return True if a holder proves its lease; asking the lease itself would note a loss."""
    return hold.loss is None and client.port.now() + later < hold.deadline


def _is_asked(link: Link) -> bool:
    """Return True if a request is on its way there, or its answer to somebody who waits for it."""
    return bool(link.up) or any(item.request and item.request.asker for item in link.down)


class Quorum(NamedTuple):
    """The lock on all nodes at one instant."""

    nodes: tuple[View, ...]
    holder: bytes | None  # who has it on a majority


class QuorumMonitor(Monitor):
    """Checks one lock of a quorum."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._granted = 0  # the last fence
        self._asking: dict[Task, Attempt] = {}
        self._seen: list[tuple[Frozen, int]] = []
        self._now = Quorum((), None)
        self._generations = [0] * len(world.servers)
        self._before: tuple[View, ...] = tuple(self._read(server) for server in world.servers)
        # Hold -> the latest deadline that its body may have seen.
        # Node and hold -> until when the node had the lock for it, before it forgot.
        self._forgotten: dict[tuple[int, bytes], int] = {}

    # -- what processes report ------------------------------------------------------------------

    def asks(self, client: Client, request: Attempt) -> None:
        """Note a request before it is sent, and who waits for it."""
        super().asks(client, request)
        if self._world.running is not None:
            self._asking[self._world.running] = request

    def holds_now(self, client: Client, hold: Hold) -> None:
        """Judge a grant in the order of grants, and its length."""
        if hold.fence <= self._granted:
            raise Violation("I3", f"fence {hold.fence} after {self._granted}")
        self._granted = hold.fence
        self._granted_enough(client, hold)
        if self._world.running is not None:
            self._asking.pop(self._world.running, None)
        super().holds_now(client, hold)
        self.check()  # who does no work gives it back in the same step

    def _granted_enough(self, client: Client, hold: Hold) -> None:
        """See that a lease is as long as it was asked for, where nothing took time.

        One that is renewed may start short, where it was handed over.
        """
        ttl = hold.ttl
        least = validity(min(ttl, HANDOFF_TTL_SECONDS) if hold.terms.options.renew else ttl)
        least += client.port.now() - ASKING_SECONDS_MAX
        if not self._world.faulty and hold.deadline < least:
            short = least - hold.deadline
            raise Violation("L", f"{hold.holder_id!r} got {short} s less than it asked for")

    def was_revoked(self, hold: Hold) -> bool:
        """Return True if nodes forgot a hold: it may be refused then, though it could be proved."""
        return any(holder == hold.holder_id for _, holder in self._forgotten)

    def flushed(self) -> None:
        """Note what a node forgot."""
        for number, server in enumerate(self._world.servers):
            if server.generation != self._generations[number]:
                before = self._before[number]
                if before.holder is not None:
                    self._forgotten[number, known_as(before.holder)] = before.end_us

    # -- the nodes' truth -----------------------------------------------------------------------

    def view(self) -> Quorum:
        """Return the lock as it stands on all nodes."""
        servers = self._world.servers
        seen = [(server.state, server.now_us) for server in servers]
        if seen != self._seen:
            nodes = tuple(self._read(server) for server in servers)
            self._seen, self._now = seen, Quorum(nodes, self._holder_of(nodes))
        return self._now

    def _read(self, server: Server) -> View:
        """Return the lock on a node: a lease that ended holds nothing."""
        return at(server.state, server.now_us)

    def _holder_of(self, nodes: Sequence[View]) -> bytes | None:
        """Return who has it on a majority."""
        found = [known_as(view.holder) for view in nodes if view.holder is not None]
        return next((each for each in found if found.count(each) >= self._needed), None)

    @property
    def _needed(self) -> int:
        return len(self._world.servers) // 2 + 1

    def _world_us(self, number: int, end_us: int) -> int:
        """Return the world's instant for one of a node's clock."""
        return end_us - EPOCH_US - self._world.servers[number].skew_us

    def end_us(self) -> int:
        """Return the world's instant at which all nodes will be free if nobody does anything."""
        nodes = enumerate(self.view().nodes)
        return max(self._world_us(n, view.end_us) for n, view in nodes if view.holder is not None)

    def key(self) -> Any:
        """Return what of it decides about later violations."""
        relied_on = tuple(
            (hold.holder_id, self._promised[id(hold)])
            for client, hold in self.holds
            if hold.loss is not None and self._relied_on(client, hold)
        )
        return super().key(), self._granted, frozenset(self._forgotten.items()), relied_on

    # -- after a request ------------------------------------------------------------------------

    def served(self, request: Request, before: Quorum) -> None:  # noqa: ARG002 - as Monitor
        """Judge what one request changed."""
        now = self.view()
        for number, (old, new) in enumerate(zip(before.nodes, now.nodes, strict=True)):
            if old is new or old == new:
                continue
            if new.fence < old.fence:
                raise Violation("I3", f"fence {new.fence} after {old.fence} on node {number}")
            self._has_ttls(number)

    def _has_ttls(self, number: int) -> None:
        for name, (_, end_ms) in self._world.servers[number].state:
            if end_ms == NEVER:
                raise Violation("I10", f"{name!r} on node {number} stays for ever")

    # -- after every step -----------------------------------------------------------------------

    def check(self) -> None:
        """Check every lease that its holder believes in."""
        nodes = self.view().nodes
        proved = [
            (client, hold)
            for client, hold in self.holds
            if client.alive and not hold.released and proves(client, hold)
        ]
        for client, hold in proved:
            self._is_backed(client, hold, nodes)
            self._promise(hold)
        held = [hold for client, hold in self.holds if self._relied_on(client, hold)]
        if len(held) > 1:
            raise Violation("I1", f"both rely on a lease: {[hold.holder_id for hold in held]}")
        self._before = nodes
        self._generations = [server.generation for server in self._world.servers]

    def _promise(self, hold: Hold) -> None:
        """Note the deadline that a body may have seen."""
        self._promised[id(hold)] = max(self._promised.get(id(hold), 0.0), hold.deadline)

    def _relied_on(self, client: Client, hold: Hold) -> bool:
        """Return True while a body may rely on its lease, though it may be lost by now."""
        revoked = hold.loss is not None and hold.loss.reason == "revoked"
        if revoked or hold.released or not client.alive:
            return False
        return client.port.now() < self._promised.get(id(hold), 0.0)

    def _held(self) -> list[tuple[Client, Hold]]:
        return [(client, hold) for client, hold in self.holds if hold.open and client.alive]

    def _is_backed(self, client: Client, hold: Hold, nodes: Sequence[View]) -> None:
        holder, ends = hold.holder_id, []
        for number, view in enumerate(nodes):
            end_us = self._forgotten.get((number, holder), 0)
            if view.holder is not None and known_as(view.holder) == holder:
                end_us = max(end_us, view.end_us)
            ends.append(self._world_us(number, end_us))
        theirs = sorted(ends, reverse=True)[self._needed - 1]
        ours = client.world_us(hold.deadline)
        if ours > theirs:
            late = (ours - theirs) / 1e6
            kind = "I1" if theirs <= self._world.now_us else "I2"
            raise Violation(kind, f"{holder!r} proves its lease {late} s longer than a majority")

    # -- time -----------------------------------------------------------------------------------

    def passing(self, instant: int) -> None:
        """See that nobody waits in vain while time passes (I6)."""
        world = self._world
        for client, hold in self._held():
            lost = not proves(client, hold, -TOLD_WITHIN_SECONDS)
            if lost and not hold.notified and self.is_punctual(client):
                raise Violation("I8", f"{hold.holder_id!r} lost its majority, and is not told")
        self._no_orphans()
        for server in world.servers:
            server.now_us = EPOCH_US + instant + server.skew_us
        asking = self._waits()
        if not any(self._could_have_it(client, instant) for client, _ in asking):
            self._unserved_us = None
            return
        if self._unserved_us is None:
            self._unserved_us = world.now_us
        most = UNSERVED_US_MAX if world.faulty else UNSERVED_US_MAX_FAULTLESS
        if instant - self._unserved_us > most:
            raise Violation("I6", f"{self._ids(asking)} wait, and a majority is free")

    def _no_orphans(self) -> None:
        """See that no node has what nobody asks for or holds, when nothing is under way (I9)."""
        for client in self._world.clients:
            if any(map(_is_asked, client.links)) or not client.alive or self._haunted:
                continue
            known = {each for owner, hold in self.holds if owner is client for each in hold.ids}
            asked = {
                request.holder_id for task, request in self._asking.items() if task.client is client
            }
            for number, node in enumerate(self.view().nodes):
                holder = node.holder
                if holder is None or not holder.startswith(client.name.encode()):
                    continue
                if holder not in known and known_as(holder) not in asked:
                    raise Violation("I9", f"{holder!r} was given up, and has node {number}")

    def _waits(self) -> list[tuple[Client, Attempt]]:
        """Return who asks now, and for what."""
        now_us = self._world.now_us
        return [
            (task.client, request)
            for task, request in self._asking.items()
            if not task.done and task.client.alive and task.client.paused_us <= now_us
        ]

    def _ids(self, asking: Sequence[tuple[Client, Attempt]]) -> list[bytes]:
        return [request.holder_id for _, request in asking]

    def _could_have_it(self, client: Client, instant: int) -> bool:
        """Return True if a majority that this process reaches has nobody but those who ask."""
        free, asking = 0, set(self._ids(self._waits()))
        for number, view in enumerate(self.view().nodes):
            server = self._world.servers[number]
            restarted = instant <= server.started_us + AFTER_RESTART_US and server.generation
            links = [link for link in client.links if link.server is server]
            cut_off = any(link.stalled or max(link.instants_us()[:2]) > instant for link in links)
            reached = not cut_off and number not in client.port.unreachable
            away = restarted or not reached or server.is_down(instant)
            free += not away and (view.holder is None or known_as(view.holder) in asking)
        return free >= self._needed

    # -- the end --------------------------------------------------------------------------------

    def end(self) -> None:
        """Check that nothing is left on any node."""
        for client in self._world.clients:
            if client.alive:
                self._nothing_kept(client)
                if not self._haunted:
                    self._nothing_left(client)

    def _nothing_left(self, client: Client) -> None:
        """Look for every id that the process ever used."""
        for number, node in enumerate(self.view().nodes):
            ids = [entry.waiter for entry in node.line]
            if node.holder is not None:
                ids.append(node.holder)
            if left := [each for each in ids if each.startswith(client.name.encode())]:
                raise Violation("I9", f"{client.name} left {left} on node {number}")
