"""One acquisition, as a question: who asks, what went out, what came, what must be undone.

An acquisition is one object from its question to its end. A thread or task makes a ``Hold``
(hold.py), which is an ``Attempt``; it is ``held`` from its grant on.

Rules of this file (I9):

- One ladder undoes, ``undo``, in the outermost frame: the flows raise, and leave it to
  that. What is out is known by what the attempt has, and each step notes that it is done. So it may
  be called from any stage, and again after an error or an interrupt in the middle.

  ==================================  ==========================================================
  what is out                         its step
  ==================================  ==========================================================
  a lease                             ``Hold.undo``: it retires, and is released in the background
  a turn that it was given            released in the background
  a question, a place in line         the next waiter of the client continues it; with no next
                                      one ``withdraw``: undone after it, on its connection
  copies on silent connections        ``undo_owed``; where it was granted, when its lease has ended
  a place among the client's waiters  ``Tenure.leave``; nothing was sent
  the client's turn                   ``step_down``: the next waiter asks the server
  ==================================  ==========================================================

- A question is undone on the connection that carried it, so that its undo cannot overtake it, and
  goes on with a new id: ``start_over``. The undo of the old id takes whatever that is granted.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS, handoff_deadline
from fencelock._core.description import HeldBy
from fencelock._core.keys import LockKeys
from fencelock._core.lock.terms import Terms
from fencelock._core.round_trips import RoundTrips
from fencelock._core.seat import Seat, Stray
from fencelock._core.types import Carrier, Reply, UnitId
from fencelock._runtime import process
from fencelock._runtime.records import NamedTuple, record
from fencelock._runtime.typed import TYPE_CHECKING, Any
from fencelock.lease import BaseLease

if TYPE_CHECKING:
    from fencelock._core.deadlock.unit_waits import UnitWait
    from fencelock._core.engine import Engine
    from fencelock._core.events import Acquisition
    from fencelock._core.lock.hold import Hold, Registry
    from fencelock._core.lock.tenure import Tenure
    from fencelock._core.quorum.acquire import QuorumAttempt


RECALLABLE = 2  # of acquire.lua


class Grant(NamedTuple):
    """A grant by the server, with its deadline on our clock."""

    fence: int
    deadline: float
    lease: float  # seconds that were granted; a handoff may start short


def counting(info: bytes, others: int) -> bytes:
    """Return a description that stands for so many others of its client, too."""
    if others and info.endswith(b'"}'):  # it is of bounded size: no number has more digits
        return b'%b,"others":%d}' % (info[:-1], others)
    return info


class Attempt(Seat, BaseLease):
    """One acquisition: the call of acquire, and its question to the server.

    ``id`` names it, ``holder_id`` proves the tenure. They are the same except for an explicit
    owner, whose holder id all its acquisitions share. ``info`` describes the client that asks, for
    ``show``. ``fence`` is that of the tenure, 0 before it is known; ``turn`` the same of a turn
    that its client's waiter before passed on, else 0.

    Its question has a place in the server's line: another attempt of the same tenure may continue
    it when this one gives up; see tenure.py.

    What each pair reads before it is set has a slot, which is read in a fourth of the time. All
    else is of the class until it is set; most attempts never wait, and never set what only that
    needs.
    """

    __slots__ = (
        *("asks", "channel", "connection", "give_up_at", "holder_id", "id", "info", "owed"),
        *("registry", "sent_at", "tenure", "terms", "turn", "unit"),
    )

    # Of its seat and its lease, which type checkers want to see again where they are set.
    began: bool
    news: bool
    ttl: float
    undo_connection: Carrier | None

    # -- the call -----------------------------------------------------------------------------
    held: bool = False  # it was granted: it is a lease
    unchanged: bool = False  # see ``BaseLease.unchanged``
    arrived_at: float = 0.0
    at_once: bool = False  # it does not wait
    event: Acquisition | None = None  # what hooks know of it; see events.py
    wait: UnitWait | None = None  # that of its thread or task, which can be part of a deadlock
    nested_in: Hold | None = None  # it is granted at once while this one lasts, or never
    votes: QuorumAttempt | None = None  # of a quorum: the attempts at its nodes, which undo it
    held_by: tuple[HeldBy, ...] = ()  # who had it in the first answer, and in the last

    # -- the question -------------------------------------------------------------------------
    grant: Grant | None = None
    asking: bool = False  # its request is under way
    waits_since: float = 0.0  # since when one of this client waits for what this asks for
    latest: float = inf  # no first answer is waited for longer
    began_at: float = 0.0  # since when it asks, if not since it arrived
    asked_at: float = 0.0  # local instant before the last request that put it in line
    answered_us: int = 0  # the server's time in that answer
    trip: float = 0.0  # how long that answer took
    said_of: Sequence[Reply] = ()  # that answer, or a later one: the server's time, and who has it
    ahead: int | None = None  # how many others were in line before it, in that answer
    abandoned: bool = False  # its undo was sent: no other attempt continues it
    placed: bool = False  # it is in line, as far as is known: it need not ask
    counted: int = 1  # how many its last heartbeat said that wait for its place
    continued_by: Attempt | None = None  # the attempt that continues it, and undoes it if need be
    releases: Attempt | None = None  # whose tenure ends with its request; see turns.py
    verdict: Reply = None  # the answer about ``releases``
    answer: Reply | Exception = None  # to its first question, if it was asked before the flow began
    outlasts: bool = True  # in line it retries until it gives up, not only for ``server_timeout``
    recalls: bool = False  # a lease was recalled that may be idle
    eager: bool = False  # most locks are free, and a channel may cost a command
    refused: bool = False  # that lease is in use: a try ends
    pushed: tuple[int, int, int] | None = None  # fence, granted us, lease ms
    _own_info: bytes | None = None  # its own, once ``info`` is that of another's question

    def __init__(
        self,
        terms: Terms,
        own_id: bytes,
        info: bytes = b"{}",
        owner: bytes | None = None,
        *,
        registry: Registry | None = None,
        unit: UnitId = None,
    ) -> None:
        self.terms: Terms = terms
        self.id: bytes = own_id
        self.holder_id: bytes = owner or own_id
        self.info: bytes = info
        self.ttl = terms.ttl
        self.fence = 0
        self.turn: int = 0  # no turn of another waiter
        # The call.
        self.registry: Registry | None = registry  # where it is kept while it is held
        self.unit: UnitId = unit  # the thread or task that acquires
        self.give_up_at: float = terms.ends
        self.tenure: Tenure | None = None  # of its client, once others wait; see tenure.py
        self.asks: Attempt | None = None  # its question, or one that it continues, until it is over
        # The question, and what of its seat each pair looks at.
        self.connection: Any = None
        self.channel: bytes = b""
        self.owed: tuple[Stray, ...] = ()

    sent_at: float  # local instant before its last request

    @property
    def keys(self) -> LockKeys:  # type: ignore[override]  # of a seat it may change
        """Return the keys of the lock."""
        return self.terms.keys

    @property
    def key(self) -> bytes:  # type: ignore[override]  # as above
        """Return the key of the lock."""
        return self.terms.keys.lock

    @property
    def topic(self) -> bytes:  # type: ignore[override]  # as above
        """Return another program's channel that tells of releases."""
        return self.terms.topic

    @property
    def own_info(self) -> bytes:
        """Return the description of its own thread or task."""
        own = self.info if self._own_info is None else self._own_info
        return own or self.registry.describe(self.unit)  # type: ignore[union-attr]  # its handle's

    def introduce(self, port: Engine) -> None:
        """Draw an id that no other has had; one that takes a lease that is kept needs none."""
        if not self.id:
            self.id = self.holder_id = self.terms.mark + port.new_id()
            self.info = self.own_info

    def anew(self, own_id: bytes, others: int = 0) -> Attempt:
        """Return a question with another id, for this attempt and ``others`` of its cohort."""
        return Attempt(self.terms, self.terms.mark + own_id, counting(self.info, others))

    def rename(self, own_id: bytes = b"") -> None:
        """Continue with another id, once the old one was given up."""
        self.id = own_id or self.terms.renamed(self.id)
        self.holder_id = self.holder_id if self.terms.owned else self.id
        self.began, self.undo_connection, self.abandoned = False, None, False

    def lasting(self, now: float) -> Terms:
        """Ask from here on for a lease that is requested now, and return its terms."""
        self.terms = terms = self.terms.lasting(now)
        self.ttl = terms.ttl
        return terms

    def reckon(self, trips: RoundTrips) -> None:
        """Before it asks under its id: have a handoff last for several round trips."""
        lease = trips.seconds * trips.handoff
        if lease > HANDOFF_TTL_SECONDS and not self.began:
            self.terms = self.terms.far(lease)

    def question(self, now: float) -> bytes:
        """Return its packed question, which goes out now: from here on there is an undo to send."""
        self.began = self.asking = True
        self.sent_at, terms = now, self.terms
        if self.undo_connection is not None:
            self.undo_connection = None  # as ``begin``
        if terms.ends < inf:
            terms = self.lasting(now)
        if self.waits_since:  # for others of its client; see turns.py
            return terms.acquire_next(self, self.channel, self.releases, now - self.waits_since)
        return terms.acquire(self, self.channel)

    def has_it(self, now: float) -> HeldBy | None:  # noqa: ARG002 - as Hold
        """Return who has the lock for which this asks, as the server said last."""
        return (self.asks or self).seen

    @property
    def seen(self) -> HeldBy | None:
        """Return who had the lock in the last answer that named someone."""
        return HeldBy.of(self.said_of[0], self.said_of[-1]) if self.said_of else None

    def hear_of(self, said: Sequence[Reply]) -> None:
        """Note another answer, if it names who has the lock."""
        if said[-1]:
            self.said_of = said

    def refused_by(self, reply: Reply) -> None:
        """Note who has the lock, in an answer that is no grant, and whether that may be idle."""
        self.said_of, self.recalls = reply, reply[3] == RECALLABLE

    def saw(self, holder: HeldBy | None) -> None:
        """Note who had the lock in the last answer about it."""
        if holder is not None:
            self.held_by = *self.held_by[:1], holder

    def count_waiting(self) -> bytes:
        """Return how many of its client wait for its place, for people; nothing for one alone."""
        tenure = (self.continued_by or self).tenure
        before, self.counted = self.counted, 1 + (0 if tenure is None else len(tenure.waiting))
        return b"n %b %d" % (self.id, self.counted) if max(before, self.counted) > 1 else b""

    # -- what came ----------------------------------------------------------------------------

    def hear(self, fence: int, granted_us: int, lease_ms: int) -> None:
        """Take a pushed grant. It may arrive before the reply to the request."""
        self.pushed = (fence, granted_us, lease_ms)
        self.news = True

    def learn(self, state: bytes) -> None:
        """Note whether the lease that was recalled is ``busy`` or ``idle``."""
        super().learn(state)
        self.refused = state == b"busy"

    def answered(self, asked_at: float, answered_us: int, now: float) -> None:
        """Note the answer that put us in line; an earlier push no longer counts."""
        self.asked_at, self.answered_us = asked_at, answered_us
        self.trip = now - asked_at
        if self.pushed is not None and self.pushed[1] < answered_us:
            self.pushed = None

    def granted(self, now: float) -> Grant | None:
        """Return the grant that was pushed, if any."""
        if self.grant is None and self.pushed is not None:
            fence, granted_us, lease_ms = self.pushed
            lease = lease_ms / 1000
            deadline = handoff_deadline(self.asked_at, self.answered_us, granted_us, lease, now)
            self.grant = Grant(fence, deadline, lease)
        return self.grant

    def grant_of(self, reply: bytes) -> Grant:
        """Return the grant that an answer to its last request is."""
        terms = self.terms
        return record(Grant, (int(reply), self.sent_at + terms.valid, terms.lease))

    def judged(self, reply: Reply) -> Reply:
        """Note the first answer about the tenure that ends; return that about this question."""
        verdict, answer = reply
        if self.verdict is None:
            self.verdict = verdict
        return answer

    def forget(self) -> None:
        """Start afresh: nothing pushed so far counts for the next request."""
        self.grant, self.pushed, self.news, self.placed = None, None, False, False

    # -- its undo -----------------------------------------------------------------------------

    def undo(self, port: Engine) -> None:
        """Undo whatever it has: its turn, its question, its place among waiters; see ``Hold``, too.

        In a child that was forked meanwhile there is nothing to undo: it is the parent's.
        """
        if self.terms.generation != process.number():
            return
        tenure = self.tenure
        if self.votes is not None:
            self.votes.leave()
        if tenure is not None and not tenure.leave(self):  # it is the front
            if tenure.spare is not None:
                port.run_in_background(*tenure.spare.release)
            elif self.local:
                self.asks = tenure.asks
        asks = self.asks
        if asks is not None and not self.leaves(asks):
            asks.withdraw(port)
        self.asks = None
        self.step_down(port)
        if self.votes is not None:
            self.votes.succeed()

    def leaves(self, asks: Attempt) -> bool:
        """Leave a question to the next waiter of this client; False when there is none."""
        tenure = self.tenure
        if tenure is None or asks.abandoned:
            return False
        return tenure.succeed(self, asks, keeps=True)

    def withdraw(self, port: Engine) -> None:
        """Undo a question that no waiter continues, with all its requests, and unseat it."""
        self.abandoned = True
        self._abandon(port)
        self.undo_owed(port)
        self.depart(port)

    def depart(self, port: Engine) -> None:
        """Remove a question from its line, and take its connection back.

        One that stays in a line would keep the client's thread alive for ever (I10).
        """
        if self.stood:
            with port.mutex:
                port.lines.leave(self, port.now())
        port.close(self)

    def start_over(self, port: Engine) -> None:
        """Undo a request that a silent connection may still deliver; continue with another id."""
        self._abandon(port)
        port.close(self)
        self.rename()

    def _abandon(self, port: Engine) -> None:
        """Undo a request that may have run, after it on the same connection."""
        if not self.began:
            return
        with port.mutex:
            port.lines.give_up(self)
        port.run_in_background(*self.terms.abandon(self, self.channel), self.path)
        self.began = False

    def step_down(self, port: Engine) -> None:
        """Make the next waiter of its client the front, if this is it; see tenure.py."""
        with port.mutex:
            tenure, cohorts, key = self.tenure, port.lines.cohorts, self.terms.cohort
            if tenure is None and cohorts.get(key) is self:  # it was alone
                del cohorts[key]
        if tenure is not None:
            tenure.succeed(self)

    def undo_owed(self, port: Engine) -> None:
        """Undo what may still come of its requests, once it has ended in any way.

        If a silent connection may still deliver one, its grant or place in line is undone after it.
        If the connection broke, a grant is released as soon as the client is notified of it.
        """
        strays, self.owed = self.owed, ()
        if strays:
            with port.mutex:
                port.lines.give_up(self)
        for stray in strays:
            if stray.undo_connection is not None:
                undo = self.terms.abandon(self, stray.channel)
                port.run_in_background(*undo, stray.undo_connection)
