"""Watches a world and says which invariant broke (the numbers are those of ARCHITECTURE.md).

It knows what no process knows: the server's state, everybody's clock, and who asked for what.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS, validity
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import LEAST_GAIN, Hold
from verification.simulator.commands import Keyspace
from verification.simulator.network import Client, World
from verification.simulator.server import EPOCH_US, Request, Server
from verification.simulator.view import Entry, View, at

if TYPE_CHECKING:
    from verification.simulator.port import SimulatedPort

# A live waiter behind a lock that nobody has is granted within this, after a fault: a proof of life
# (2 s), the stagger, the wait behind a fellow waiter (0.5 s), and the pauses of retries.
UNSERVED_US_MAX = 3_600_000
# Without any fault only a lease may end with nobody told: then the head looks a moment later.
UNSERVED_US_MAX_FAULTLESS = 600_000
# A waiter that arrived or sent a heartbeat within this may not be passed over. It checks the
# scripts' constant, and so is not read from it.
PATIENCE_US = 7_000_000
# Requests by which a holder gives the lock up: the next in line must have it then.
GIVING_UP = frozenset(
    {
        *("release", "abandon", "break", "once_finish", "multi_release", "election_hand_over"),
        *("acquire_next", "leave"),
    }
)
# Requests that may put their sender in line and grant to it.
ASKING = frozenset({"acquire", "acquire_next", "once_start"})
# The plain form knows no line: it overtakes, and hands over to nobody.
PLAIN = frozenset({"SET", "poll_release"})
# Sends home who waits for a result, grants to whom the holder names, or for a while to nobody: no
# waiter is passed over.
DISMISSING = frozenset({"once_finish", "election_hand_over", "leave"})
RECORD_SECONDS = 700.0
# Faults after which a request comes late to the server: its ttl counts from there.
SLOW = frozenset({"late", "silent", "pause", "expiry", "zombie"})
# Faults after which a server may keep a lease beyond the instant until which it is meant.
LONGER = SLOW | {"back"}
ROUNDING_US = 2_000  # of a server's milliseconds
# What each renewal adds to a lease at least, of its ttl.
LEAST_RENEWED = 0.28
# What rounding to the wire's milliseconds may take off a lease.
LEAST_SLACK = 0.002


class Violation(Exception):
    """An invariant broke."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(invariant, text)
        self.invariant = invariant

    def __str__(self) -> str:
        return ": ".join(self.args)


def least_seconds(hold: Hold) -> float:
    """Return how long a lease lasts at least when nothing goes wrong, from its grant on."""
    options = hold.terms.options
    if not options.renew:
        return min(hold.ttl, hold.terms.ends - hold.granted_at)
    if options.max_renewals is not None:
        return min(
            options.ttl * (1 + LEAST_RENEWED * options.max_renewals), options.max_hold or inf
        )
    if options.max_hold is not None:
        return options.max_hold - min(options.ttl, options.max_hold) * LEAST_GAIN
    return inf


def proves(hold: Hold) -> bool:
    """Return True if a lease proves anything now; unlike its own answer this notes nothing."""
    return hold.loss is None and not hold.released and hold.clock() < hold.deadline


class Monitor:
    """Checks after every step."""

    unserved_us_max = UNSERVED_US_MAX
    unserved_us_max_faultless = UNSERVED_US_MAX_FAULTLESS
    granting_seconds: float = 0.05  # how long after its grant a lease may be heard of
    kept_seconds = RECORD_SECONDS  # after which every key has ended
    pause_us = 3_000_000  # a paused process stands still for at least this long

    def __init__(self, world: World) -> None:
        self._world = world
        self.holds: list[tuple[Client, Hold]] = []
        self.requests: list[tuple[Client, Attempt]] = []
        self.flows: Any = None
        self.granted: set[bytes] = set()  # who was granted the lock at some time
        self._fence = 0
        self._unserved_us: int | None = None
        self._revoked: set[bytes] = set()
        self._breaking: Any = frozenset()  # an operator's requests that took something
        self._told: dict[int, int] = {}
        self._least: dict[int, float] = {}
        self._promised: dict[int, float] = {}  # per hold: until when it was proved
        self._asking_to_renew: dict[int, int] = {}
        self._haunted = False  # the server may run what was given up
        self._lagging = False  # everything stood still: nobody could be told in time

    # -- what processes report ------------------------------------------------------------------

    async def keep(self, port: SimulatedPort) -> None:
        """Tend a process's leases, as the keeper thread or task of a real port does."""
        while True:
            await port.mind()
            await self.flows.maintain(port)

    def asks(self, client: Client, request: Attempt) -> None:
        """Note a request before it is sent."""
        self.requests.append((client, request))

    def lines_up(self, client: Client, request: Attempt) -> None:
        """Note that an acquire begins."""

    def asked(self, client: Client, request: Attempt, hold: Hold | None) -> None:
        """Note that an acquire is over; ``hold`` is what came of it."""

    def heard_revocation(self, client: Client, holder: bytes) -> None:
        """Note that a process was told that an operator took a tenure."""

    def holds_now(self, client: Client, hold: Hold) -> None:
        """Note that a flow returned a lease."""
        self.holds.append((client, hold))

    def told(self, hold: Hold) -> None:
        """Count that a holder was told of its loss."""
        self._lasted(hold)
        if hold.loss is not None and hold.loss.reason == "revoked" and not self.was_revoked(hold):
            raise Violation("L", f"{hold.holder_id!r} is told of a revocation that was none")
        self._told[id(hold)] = self._told.get(id(hold), 0) + 1
        if self._told[id(hold)] > 1:
            raise Violation("I8", "a loss was told twice")

    def asks_to_renew(self, hold: Hold) -> None:
        """Note that a holder asks for another length; what was promised before stays."""
        self._asking_to_renew[id(hold)] = self._asking_to_renew.get(id(hold), 0) + 1

    def was_answered(self, hold: Hold) -> None:
        """Note that such a question is over."""
        self._asking_to_renew[id(hold)] -= 1

    def lasts(self, hold: Hold, until: float) -> None:
        """See that a lease is proved until an instant at least, now and later (L)."""
        self._least[id(hold)] = max(until, self._least.get(id(hold), 0.0))
        self._long_enough(hold)

    def _long_enough(self, hold: Hold) -> None:
        until = self._least.get(id(hold), 0.0)
        if hold.deadline < until - LEAST_SLACK and hold.loss is None:
            short = until - hold.deadline
            raise Violation("L", f"the lease of {hold.holder_id!r} is {short} s too short")

    def _lasted(self, hold: Hold) -> None:
        """See that a lease that ended by its time was as long as it was wanted (L)."""
        if hold.loss is None or hold.loss.reason not in {"expired", "max_hold"}:
            return
        least = least_seconds(hold)
        wished = id(hold) in self._asking_to_renew
        if self._world.faulty or wished or hold.dropped or hold.holder_id in self._revoked:
            return
        lasted = hold.loss.since - hold.granted_at
        promised = least if least == inf else validity(least)  # of no end, that would be no number
        if lasted < promised - LEAST_SLACK - self.granting_seconds:
            raise Violation("L", f"{hold.holder_id!r} had its lease for {lasted} s, not {least}")

    def was_revoked(self, hold: Hold) -> bool:
        """Return True if an operator, or a server that forgot everything, took a hold away."""
        return hold.holder_id in self._revoked

    def is_punctual(self, client: Client) -> bool:
        """Return True if a process could do everything in time so far."""
        return not client.was_paused and not self._lagging

    def flushed(self) -> None:
        """Note that the server forgot everything: who held, holds no more."""
        self._revoked.update(hold.holder_id for _, hold in self.holds)
        self._revoked.update(request.holder_id for _, request in self.requests)

    # -- the server's truth ---------------------------------------------------------------------

    @property
    def _server(self) -> Server:
        """Return the server that has the lock."""
        return self._world.server

    def view(self) -> Any:
        """Return the lock as it stands on the server."""
        return at(self._server.state, self._server.now_us)

    def end_us(self) -> int:
        """Return the world's instant at which the lock will be free if nobody does anything."""
        end_us: int = self.view().end_us
        return end_us - EPOCH_US - self._world.skew_us

    def key(self) -> Any:
        """Return what of it decides about later violations."""
        revoked = frozenset(self._revoked), self._breaking
        return self._fence, self._unserved_us, revoked, self._lagging

    # -- after a request ------------------------------------------------------------------------

    def served(self, request: Request, before: Any) -> None:
        """Judge what one request changed."""
        after = self.view()
        self._fences_grow(after)
        if after.holder == before.holder:
            changed = before.holder is not None and after.end_us != before.end_us
            if changed and before.holder not in request.args:
                raise Violation("I11", f"{request!r} renewed the lease of {before.holder!r}")
            return
        if gave_up := before.holder is not None:
            self._may_give_up(request, before)
        if after.holder is not None:
            self.granted.add(after.holder)
            self._told_before(after)
            self._hears(request, before, after)
        self._first_come(request, before, after, gave_up=gave_up)

    def _fences_grow(self, after: Any) -> None:
        if after.fence != self._fence:
            if after.fence < self._fence and after.fence:
                raise Violation("I3", f"fence {after.fence} after {self._fence}")
            self._fence = max(after.fence, self._fence)

    def _may_give_up(self, request: Request, before: View) -> None:
        if request.name == "break":
            self._revoked.add(before.holder or b"")
            self._once_broken(request)
        elif request.name not in GIVING_UP | PLAIN or before.holder not in request.args:
            raise Violation("I1", f"{request!r} took the lock from {before.holder!r}")

    def _once_broken(self, request: Request) -> None:
        """See that an operator's request takes a lock once, however often it comes."""
        if request.args in self._breaking:
            raise Violation("I4", f"{request!r} took the lock from the next holder, too")
        self._breaking |= {request.args}

    def _told_before(self, after: View) -> None:
        for client, hold in self.holds:
            if not client.alive or not self.is_punctual(client):
                continue
            if not hold.open or hold.notified or hold.holder_id == after.holder:
                continue
            if hold.holder_id not in self._revoked:
                raise Violation("I8", f"{after.holder!r} was granted before the loss was told")

    def _hears(self, request: Request, before: View, after: View) -> None:
        """See that who is granted from the line hears it: by the answer, or on a channel (I7)."""
        channels = self._server.channels
        granted = [entry for entry in before.line if entry.holder == after.holder]
        heard = [
            each for each in granted if each.waiter in request.args or each.channel in channels
        ]
        if granted and not heard and after.holder not in request.args:
            raise Violation("I7", f"{granted[0].waiter!r} was granted, but is gone")

    def _first_come(self, request: Request, before: View, after: View, *, gave_up: bool) -> None:
        waits = [entry for entry in before.line if entry.waiter not in request.args[:1]]
        if request.name in ASKING:  # it may itself be in line, and be the one who is granted
            waits = [*before.line]
        ahead = []
        for entry in waits:
            if entry.holder == after.holder:
                break
            ahead.append(entry)
        passed = [entry.waiter for entry in ahead if self._counts(entry)]
        moved = after.holder is not None or gave_up
        if passed and moved and request.name not in PLAIN | DISMISSING:
            raise Violation("I5", f"{after.holder!r} was granted before {passed[0]!r}")

    def _counts(self, entry: Entry) -> bool:
        server = self._server
        fresh = server.now_us - entry.arrived_us <= PATIENCE_US
        return fresh and entry.channel in server.channels

    # -- after every step -----------------------------------------------------------------------

    def check(self) -> None:
        """Check every lease that its holder believes in (I1, I2, I4)."""
        view = None
        for client, hold in self.holds:
            if not client.alive or not proves(hold):
                continue
            view = view or self.view()
            if hold.holder_id in self._revoked:
                continue
            if view.holder != hold.holder_id:
                raise Violation(
                    "I1",
                    f"{hold.holder_id!r} proves a lease, but {view.holder!r} has the lock",
                )
            self._ends_in_time(client, hold, view.end_us)
            self._only_grows(hold)
            self._within_limits(hold)
            if not self._world.faulty:
                self._long_enough(hold)

    def _only_grows(self, hold: Hold) -> None:
        """See that a deadline that a body may have seen comes no nearer."""
        promised = self._promised.get(id(hold), hold.deadline)
        if hold.deadline < promised:
            nearer = promised - hold.deadline
            raise Violation("I15", f"the lease of {hold.holder_id!r} ends {nearer} s earlier")
        self._promised[id(hold)] = hold.deadline

    def _within_limits(self, hold: Hold) -> None:
        if hold.deadline > hold.terms.ends:
            raise Violation("instant", f"the lease of {hold.holder_id!r} passes its instant")
        most = hold.terms.options.max_hold
        if most is not None and hold.deadline > hold.granted_at + most:
            raise Violation("I11", f"the lease of {hold.holder_id!r} passes its max_hold")

    def _ends_in_time(self, client: Client, hold: Hold, end_us: int) -> None:
        ours = client.world_us(hold.deadline)
        theirs = end_us - EPOCH_US - self._world.skew_us
        if hold.terms.ends < inf and self._world.budgets.keys().isdisjoint(LONGER):
            claimed = self._world.now_us + int(HANDOFF_TTL_SECONDS * 1e6)
            if theirs > max(client.world_us(hold.terms.ends), claimed) + ROUNDING_US:
                raise Violation("instant", f"{hold.holder_id!r} has the lock after its instant")
        if ours > theirs:
            late = (ours - theirs) / 1e6
            raise Violation("I2", f"the lease of {hold.holder_id!r} is proved {late} s too long")

    # -- time -----------------------------------------------------------------------------------

    def passing(self, instant: int) -> None:
        """See that nobody waits in vain while time passes (I6, I7)."""
        world = self._world
        self._server.now_us = EPOCH_US + instant + world.skew_us
        view = self.view()
        if not self._somebody_waits() or not self._unserved(view):
            self._unserved_us = None
            return
        if self._unserved_us is None:
            self._unserved_us = self._since_us(instant)
        most = self.unserved_us_max if world.faulty else self.unserved_us_max_faultless
        if instant - self._unserved_us > most:
            raise Violation("I6", "a live waiter stands behind a lock that nobody has")

    def _unserved(self, view: Any) -> bool:
        """Return True if those who wait could be granted: nobody holds, or who does not know it."""
        return not view.holder or view.holder in self._unaware()

    def _since_us(self, instant: int) -> int:
        """Return since when that is so, at the latest ``instant``."""
        return max(self._world.now_us, min(self.end_us(), instant))

    def _somebody_waits(self) -> bool:
        return any(True for _ in self._waiting())

    def _waiting(self) -> Any:
        """Yield the wants that wait and could hear."""
        for client in self._world.clients:
            if client.alive and client.paused_us <= self._world.now_us:
                for task in client.tasks:
                    if task.state is not None and task.state.kind == "wait":
                        assert task.state.waiter is not None
                        if isinstance(task.state.waiter, Attempt):  # else it wants no lock
                            yield task.state.waiter

    def _unaware(self) -> set[bytes]:
        return {request.holder_id for request in self._waiting() if not request.terms.owned}

    def is_haunted(self) -> None:
        """Note that the server may run a request whose asker has given it up."""
        self._haunted = True

    def failed_over(self) -> None:
        """Note that a replica serves now: what was given back may be held again."""
        self._haunted, self._fence = True, min(self._fence, self.view().fence)

    def replaced(self) -> None:
        """Note what replication lost: grants and renewals that the new master does not know."""
        self.failed_over()
        view, end_us = self.view(), self.end_us()
        self._revoked.update(
            hold.holder_id
            for client, hold in self.holds
            if hold.holder_id != view.holder or client.world_us(hold.deadline) > end_us
        )

    def stood_still(self) -> None:
        """Note that no process could do anything for a while."""
        self._lagging = True

    # -- the end --------------------------------------------------------------------------------

    def end(self) -> None:
        """Check that nothing is left behind (I9, I10), now and when all has expired."""
        view, living = self.view(), [request for client, request in self.requests if client.alive]
        for request in living if not self._haunted else ():  # what comes after its undo has its ttl
            if what := self._left_by(request, view):
                raise Violation("I9", f"{request.id!r} is over and left {what} behind")
        for client in self._world.clients:
            if client.alive:
                self._nothing_kept(client)
        for client, hold in self.holds:
            if client.alive and hold.loss is not None and id(hold) not in self._told:
                raise Violation("I8", f"the loss of {hold.holder_id!r} was told to nobody")
        self._nothing_in_time()

    def _left_by(self, request: Attempt, view: Any) -> str:
        held = (
            request.id in view.owner_holds
            if request.terms.owned
            else view.holder == request.holder_id
        )
        if held:
            return "a grant"
        waits = any(entry.waiter == request.id for entry in view.line)
        return "a place in line" if waits else ""

    def _nothing_kept(self, client: Client) -> None:
        for port in client.port.tended:
            if len(port.lines) or port.waiters:
                raise Violation("I9", f"{client.name} still has a waiter")
            if any(hold.open for hold in port.renewals.all_holds()):
                raise Violation("I11", f"{client.name} still renews")

    def _nothing_in_time(self) -> None:
        space = Keyspace(self._server.now_us)
        space.restore(self._server.state)
        space.advance(self.kept_seconds)
        if left := space.keys():
            raise Violation("I10", f"left for ever: {left}")
