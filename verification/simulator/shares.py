"""What a world watches where many may hold at once: permits, readers and writers.

It counts for itself: the leases that stand in the keyspace, never the counter of the scripts.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS, validity
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.objects.semaphore_rwlock import SEMAPHORE, ShareTerms
from fencelock.options import LeaseOptions
from fencelock.scripts.layout import words_of
from verification.simulator.actors import KEYS, Actor
from verification.simulator.hashes import Hash
from verification.simulator.keyspace import Frozen
from verification.simulator.monitor import PATIENCE_US, Monitor, Violation, proves
from verification.simulator.network import Client
from verification.simulator.server import EPOCH_US, Request
from verification.simulator.view import Entry

# Requests by which permits come back; who is next in line and fits must have them then.
GIVING_UP = frozenset({"shares_release", "shares_abandon", "shares_break"})
# Others that decide who is granted, and leave nobody waiting who fits.
DECIDING = GIVING_UP | {"shares_acquire", "shares_limit"}
# An expired lease is noticed by who looks: the head of the line a moment later, who became head
# since then within a proof of life.
UNSERVED_US_MAX_FAULTLESS = 2_600_000


# A lease's end is whole milliseconds on the wire.
ROUNDING_SECONDS = 0.002


class Permits(NamedTuple):
    """One lease: how many permits, until when, by the server's clock."""

    permits: int
    end_us: int
    fence: int


class ShareView(NamedTuple):
    """The permits of one name on the server at one instant."""

    leases: dict[bytes, Permits]
    limit: int
    counted: int  # by the scripts, with the leases that ended and were not dropped yet
    fence: int
    line: tuple[tuple[Entry, int], ...]  # with the permits that each wants

    @property
    def taken(self) -> int:
        """Return how many permits are taken."""
        return sum(lease.permits for lease in self.leases.values())

    @property
    def holder(self) -> bytes | None:
        """Return one who holds, or None."""
        return next(iter(self.leases), None)

    @property
    def end_us(self) -> int:
        """Return when the first lease ends."""
        return min((lease.end_us for lease in self.leases.values()), default=0)


@functools.lru_cache(maxsize=100_000)
def read(state: Frozen) -> ShareView:
    """Return the permits in a frozen keyspace, whatever the time."""
    ends: dict[bytes, int] = {}
    holds: dict[bytes, bytes] = {}
    limit = counted = fence = 0
    line: tuple[tuple[Entry, int], ...] = ()
    for key, (value, _) in state:
        if key.endswith(b"~queue"):
            line = tuple(_entry(text, score) for score, text in value)
        elif key.endswith(b"~record"):
            head, *recorded = value.split(b"\n")
            words = words_of("shares", head)
            fence, limit, counted = (int(words[each]) for each in ("fence", "limit", "taken"))
            holds.update(line.split(b" ", 1) for line in recorded)
        elif isinstance(value, Hash) and key.endswith(b"~holds"):
            holds.update(value)
        elif isinstance(value, tuple) and b"~" not in key:
            ends = {member: int(score) for score, member in value}
    leases = {who: _permits(holds.get(who, b""), ends[who]) for who in ends}
    return ShareView(leases, limit, counted, fence, line)


def _permits(text: bytes, end_us: int) -> Permits:
    words = words_of("hold", text)
    return Permits(int(words.get("held", 0)), end_us, int(words.get("fence", 0)))


def _entry(text: bytes, arrived_us: float) -> tuple[Entry, int]:
    words = words_of("share_entry", text)
    entry = Entry(words["waiter"], words["holder"], words["channel"], arrived_us)
    return entry, int(words["permits"][1:])


class SharesMonitor(Monitor):
    """Checks a world of one semaphore, or of one reader/writer lock."""

    unserved_us_max_faultless = UNSERVED_US_MAX_FAULTLESS
    piecemeal = False  # a script need not grant to all who fit

    def raw(self) -> ShareView:
        """Return the permits in the keyspace, also of leases that have ended."""
        return read(self._world.server.state)

    def view(self) -> ShareView:
        """Return the permits as they stand on the server: leases that ended hold nothing."""
        view, now_us = self.raw(), self._world.server.now_us
        living = {who: lease for who, lease in view.leases.items() if lease.end_us > now_us}
        return view._replace(leases=living) if len(living) < len(view.leases) else view

    def end_us(self) -> int:
        """Return the world's instant at which the first lease ends, if nobody does anything."""
        return self.view().end_us - EPOCH_US - self._world.skew_us

    def holds_now(self, client: Client, hold: Hold) -> None:
        """Note that a flow returned a lease; its holder counts the permits, as a handle does."""
        template: Any = hold.terms
        hold.count = template.permits
        super().holds_now(client, hold)

    # -- after a request ------------------------------------------------------------------------

    def served(self, request: Request, before: Any) -> None:
        """Judge what one request changed."""
        after = self.view()
        self._fences_grow(after)
        granted = [who for who in after.leases if who not in before.leases]
        self._within_limit(after, granted)
        self._last_as_wanted(request, before, after)
        if request.name == "shares_break" and before.leases.keys() - after.leases.keys():
            self._once_broken(request)
        for who in before.leases:
            if who not in after.leases:
                self._may_end(request, who)
            elif after.leases[who] != before.leases[who] and who not in request.args:
                raise Violation("I11", f"{request!r} renewed the lease of {who!r}")
        if granted:
            self._told_all(after)
            self._heard(request, before, granted)
        self._in_turn(request, before, after, granted)

    def _within_limit(self, after: ShareView, granted: list[bytes]) -> None:
        raw = self.raw()
        if raw.leases and raw.counted != raw.taken:
            raise Violation("I1", f"{raw.counted} permits are counted, {raw.taken} are taken")
        # Beside a lease of its own thread that still lasts, another one costs nothing.
        nested_under = {request.holder_id: _outer(request) for _, request in self.requests}
        own = sum(
            lease.permits
            for who, lease in after.leases.items()
            if nested_under.get(who) not in after.leases
        )
        if granted and own > after.limit:  # a limit that was lowered takes nothing away
            raise Violation("I1", f"{own} permits are taken of {after.limit}")

    def _last_as_wanted(self, call: Request, before: ShareView, after: ShareView) -> None:
        """See that each lease that this request began or renewed is as long as was wanted."""
        now_us = self._world.server.now_us
        renewed = dict(zip(call.args[1::2], call.args[2::2], strict=False))
        for who, lease in after.leases.items():
            old = before.leases.get(who)
            if old is not None and old.end_us == lease.end_us:
                continue
            request = next(
                (request for _, request in self.requests if request.holder_id == who), None
            )
            if call.name == "shares_renew":
                wanted_us = int(renewed[who]) * 1000
            elif request is None:
                continue
            else:
                wanted_us = round(_first_lease(call, request) * 1_000_000)
            lasts_us = lease.end_us - now_us
            if lasts_us != wanted_us and (old is None or call.name == "shares_renew"):
                raise Violation("I2", f"{who!r} has {lasts_us} us of {wanted_us} us")

    def _may_end(self, request: Request, who: bytes) -> None:
        if request.name == "shares_break":
            self._revoked.add(who)
        elif request.name not in GIVING_UP or who not in request.args:
            raise Violation("I1", f"{request!r} ended the lease of {who!r}")

    def _told_all(self, after: ShareView) -> None:
        for client, hold in self.holds:
            if not client.alive or not self.is_punctual(client) or not hold.open or hold.notified:
                continue
            if hold.holder_id not in after.leases and hold.holder_id not in self._revoked:
                raise Violation("I8", f"others were granted before {hold.holder_id!r} was told")

    def _heard(self, request: Request, before: ShareView, granted: list[bytes]) -> None:
        """See that who is granted from the line hears it: by the answer, or on a channel (I7)."""
        channels = self._world.server.channels
        # What a broken connection delivers late may line up who is over; it ends by its ttl.
        for entry, _ in before.line if not self._haunted else ():
            unheard = entry.waiter not in request.args and entry.channel not in channels
            if entry.holder in granted and unheard:
                raise Violation("I7", f"{entry.waiter!r} was granted, but is gone")

    def _in_turn(
        self, request: Request, before: ShareView, after: ShareView, granted: list[bytes]
    ) -> None:
        """See that nobody overtook who came before, and that nobody who fits is left waiting."""
        left = {entry.waiter for entry, _ in after.line}
        own = _outer(self._request_of(request))
        for entry, permits in before.line:
            overtaken = entry.waiter in left and self._counts(entry) and not own
            if overtaken and not self._came_before(granted, entry, before):
                raise Violation("I5", f"{granted} were granted before {entry.waiter!r}")
            dropped = entry.waiter not in left and entry.holder not in granted
            # One goes by itself, or can never be granted.
            if not dropped or entry.waiter in request.args or permits > after.limit:
                continue
            if self._counts(entry) or self._must_wait(entry, before, after, granted):
                raise Violation("I5", f"{entry.waiter!r} lost its place")
        channels = self._world.server.channels
        living = [each for each in after.line if each[0].channel in channels]
        # A connection that broke hears until the server has read all that it was sent.
        judged = not self.piecemeal and not self._haunted
        if request.name in DECIDING and living and judged:
            entry, permits = living[0]
            if self._counts(entry) and after.taken + permits <= after.limit:
                raise Violation("I5", f"{entry.waiter!r} fits and was not granted")

    def _must_wait(
        self, entry: Entry, before: ShareView, after: ShareView, granted: list[bytes]
    ) -> bool:
        """Return True if a waiter whose connection is lost could not have been granted anyway.

        It may be connecting again: until it is taken for dead it keeps its place.
        """
        line = {each.holder: place for place, (each, _) in enumerate(before.line)}
        place = line[entry.holder]
        permits = before.line[place][1]
        behind = sum(after.leases[who].permits for who in granted if line.get(who, place) >= place)
        fresh = self._world.server.now_us - entry.arrived_us <= PATIENCE_US
        return fresh and after.taken - behind + permits > after.limit

    def _came_before(self, granted: list[bytes], entry: Entry, before: ShareView) -> bool:
        """Return True if all who were granted stood in line before this one."""
        line = [each.holder for each, _ in before.line]
        place = line.index(entry.holder)
        return all(who in line and line.index(who) < place for who in granted)

    def _request_of(self, call: Request) -> Any:
        found = (request for _, request in self.requests if request.holder_id in call.args[:1])
        return next(found, None)

    # -- after every step -----------------------------------------------------------------------

    def check(self) -> None:
        """Check every lease that its holder believes in (I1, I2)."""
        view: ShareView | None = None
        for client, hold in self.holds:
            if not client.alive or not proves(hold):
                continue
            view = view or self.view()
            who = hold.holder_id
            if who in self._revoked:
                continue
            if who not in view.leases:
                raise Violation("I1", f"{who!r} proves a lease that the server does not have")
            if view.leases[who].permits < hold.count:
                raise Violation("I1", f"{who!r} believes in more permits than it has")
            self._ends_in_time(client, hold, view.leases[who].end_us)

    def passing(self, instant: int) -> None:
        """See that nobody believes in less than it has while nothing is under way."""
        if not self._world.faulty:
            leases = self.view().leases
            for client, hold in self.holds:
                if hold.open and hold.holder_id in leases:
                    self._lasts(client, hold, leases[hold.holder_id].end_us)
        super().passing(instant)

    def _lasts(self, client: Client, hold: Hold, end_us: int) -> None:
        theirs = (end_us - EPOCH_US - self._world.skew_us) / 1_000_000
        ours = client.world_us(hold.deadline) / 1_000_000
        # The drift of the lease, and of the time that it was waited for.
        span = max(hold.ttl + self._world.now_us / 1_000_000, theirs)
        if theirs - ours > span - validity(span) + ROUNDING_SECONDS:
            who = hold.holder_id
            raise Violation("I2", f"the lease of {who!r} is proved {theirs - ours} s too short")

    def _unserved(self, view: Any) -> bool:
        """Return True if the head of the line could be granted, and is not."""
        waiting = {request.holder_id for request in self._waiting()}
        for who in waiting & set(view.leases):  # granted, and does not know
            del who
            return True
        for entry, permits in view.line:
            if entry.holder in waiting:
                return bool(view.taken + permits <= view.limit)
            if self._counts(entry):
                return False
        return bool(waiting) and not view.leases

    def _since_us(self, instant: int) -> int:
        ours = EPOCH_US + self._world.skew_us
        ends = [lease.end_us - ours for lease in self.raw().leases.values()]
        return max([self._world.now_us, *(end for end in ends if end <= instant)])

    def _left_by(self, request: Any, view: Any) -> str:
        if request.holder_id in view.leases:
            return "a grant"
        waits = any(entry.waiter == request.id for entry, _ in view.line)
        return "a place in line" if waits else ""


def _outer(request: Attempt | None) -> bytes:
    """Return the holder id of the hold that an attempt is nested under, or nothing."""
    return b"" if request is None or request.nested_in is None else request.nested_in.holder_id


def _first_lease(call: Request, request: Any) -> float:
    """Return how long the lease of a request is: a handoff to another client may start short."""
    words = b" ".join(arg for arg in call.args if isinstance(arg, bytes)).split(b" ")
    if (
        request.terms.client_channel in words
        or request.holder_id in words
        or not request.terms.options.renew
    ):
        return float(request.ttl)
    return float(min(request.ttl, HANDOFF_TTL_SECONDS))


class ShareActor(Actor):
    """One user of a semaphore, or of one side of a reader/writer lock."""

    kind = SEMAPHORE
    limit = 2

    def request_permits(
        self, options: LeaseOptions, permits: int = 1, nested_under: Hold | None = None
    ) -> Hold:
        """Return a fresh request, as a handle makes it."""
        template = ShareTerms(
            keys=KEYS,
            options=options,
            client_channel=self.port.client_channel,
            ttl=options.first_ttl(),
            kind=self.kind,
            limit=self.limit,
            permits=permits,
        )
        attempt = Hold(template, self.port.new_id())
        attempt.nested_in = nested_under
        return attempt
