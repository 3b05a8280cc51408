"""What a client does with its locks on one server, also on the one that Sentinels name.

A port is an engine with its wire: each of ``_io``, and the simulated one of the tests, derives from
``Engine``. A Cluster's and a quorum's replace what differs there (``_topology/cluster.py``,
``quorum/engine.py``): so a flow calls the port that it was given, and never asks which servers it
runs on.

What few programs need is imported when it is first called: a command of the shell pays for each
module when it starts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from math import inf

from fencelock._core.deadlines import align_to_batch, retry_delay
from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold, lose
from fencelock._core.lock.idle import is_idle
from fencelock._core.lock.maintain import CALL_SECONDS_MAX, Renewer
from fencelock._core.lock.renew import Renewals
from fencelock._core.lock.renewal_schedule import RenewalBatch, RenewalSchedule
from fencelock._core.lock.terms import may_linger
from fencelock._core.lock.turns import give_back, take
from fencelock._core.retry import Pipeline, give_up, pause_after
from fencelock._core.round_trips import CALL_TRIPS, RoundTrips
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Call, Carrier, Keys, NoReply, PackedCall, Reply
from fencelock._core.wire import Replicas, Wire
from fencelock._runtime.log import listed, log
from fencelock._runtime.typed import TYPE_CHECKING, TypeVar
from fencelock.errors import FencelockError, ServerError
from fencelock.lease import fence_of
from fencelock.scripts import Script

if TYPE_CHECKING:
    from fencelock._core.deadlock.unit_waits import UnitWaits
    from fencelock._core.lock.waiting import Lines
    from fencelock._core.look.history import Recorder

T = TypeVar("T")

ONLY = "server"  # the only node
NEAR = RoundTrips()  # never noted
# The least time an answer gets, however short the caller's timeout is.
ANSWER_SECONDS_MIN = 0.08
# How many releases are sent before the time is looked at again.
RELEASES_AT_ONCE = 50


class Engine(Wire):
    """One client: its wire, its tables, and what it does with its locks, on one server.

    Its flows are methods; those from other files have the port as their first parameter.
    """

    lines: Lines  # what of this client holds or wants a lock
    renewals: RenewalSchedule  # when which lease is due
    waits: UnitWaits  # what the threads and tasks of this process wait for
    recorder: Recorder | None  # of the client's history
    closing: bool  # no new request is accepted

    replicas: Replicas | None = None
    publishes: bytes = b"PUBLISH"  # to a channel of another program's
    pipeline_max: int = 1  # else one server would serve no other client meanwhile

    @property
    def trips(self) -> RoundTrips:
        """Return the round trips that bound its calls."""
        return NEAR

    take = take
    give_back = give_back

    async def maintain(self) -> None:
        """Do what is due: notify holders of losses, renew the rest; no server's error is raised."""
        await Renewer(self).maintain()

    async def renew(self, holds: Sequence[Hold], ttl: float | None) -> None:
        """Renew leases, all nodes in parallel; one after the other where replicas acknowledge.

        Raises LeaseLost when one of them was lost or is refused; otherwise, once all others are
        renewed, as ``renew_now`` when no answer came for one.
        """
        await Renewals(self, ttl).renew(holds)

    def clean_up(self, hold: Hold) -> None:
        """Undo what may still come of the requests of a hold that has ended."""
        hold.undo_owed(self)

    async def value_of(self, keys: LockKeys, /) -> bytes | None:
        """Return the id of a lock's holder, or None, also for an idle lease that is kept."""
        holder: bytes | None = await self.read((b"GET", keys.lock), keys.lock)
        if holder is not None and may_linger(holder) and await is_idle(self, keys, holder):
            return None
        return holder

    async def ask_for(
        self, attempt: Attempt, _at: float, until: float, /, *, listen: bool
    ) -> Reply:
        """Connect an attempt as ``open`` does, and send its question; ends like ``call``.

        ``_at`` was read just before: the lease counts from there unless a connection is opened.
        Takes the connection back at a grant, and from one that does not ``listen``; not where
        replicas must have the grant first.
        """
        await self.open(attempt, until, listen=listen)
        attempt.reckon(self.trips)
        reply = await self.run(attempt.question(self.now()), attempt.key, until, attempt)
        if self.replicas is None and (type(reply) is bytes or not listen):
            self.close(attempt)
        return reply

    def notify_loss(self, hold: Hold) -> None:
        """Log that a lease is lost, and notify its holder: callback, cancellation.

        Called once for each lease, from any thread; never blocks, sends nothing.
        """
        raise NotImplementedError

    def attend(self, hold: Hold, when: float) -> None:
        """Have ``maintain`` run by ``when``; give back all if the client was closed meanwhile."""
        raise NotImplementedError

    def track(self, hold: Hold, when: float) -> None:
        """Put a new hold into the renewal schedule, and attend to it."""
        with self.mutex:
            self.renewals.unplaced[hold] = when
        self.attend(hold, when)

    def move(self, hold: Hold, when: float) -> None:
        """Schedule a tracked hold for another instant."""
        with self.mutex:
            if not hold.open or hold.notified:
                return
            self.renewals.reschedule(hold, when)
        self.attend_by(when)

    def release_later(self, hold: Hold, undo_connection: Carrier | None) -> None:
        """Release a hold in the background, unless its turn was passed on."""
        tenure = hold.tenure
        if tenure is not None:
            passed = tenure.passed(hold)  # before ``succeed``, which may make another the front
            tenure.succeed(hold)
            if passed:
                return
        self.run_in_background(*hold.terms.release(hold), undo_connection)

    # -- asking until an answer comes; the rules are in retry.py -----------------------------------

    async def ask(
        self,
        script: Script,
        keys: Keys,
        args: Args,
        until: float | None = None,
        *,
        asked: Seat | None = None,
        reads: bool = False,
    ) -> Reply:
        """Run a script until it is answered; OutcomeUnknown or ServerUnreachable at ``until``.

        By default after ``server_timeout``.
        """
        by = self.now() + self.server_timeout if until is None else until
        return await self.persist(lambda: self.call(script, keys, args, by), by, asked, reads=reads)

    async def read(self, args: Args, key: bytes, give_up_at: float = inf) -> Reply:
        """Run a plain reading command until it is answered, within the ``server_timeout``."""
        until = self.answer_by(self.now(), give_up_at)
        return await self.persist(lambda: self.command(args, key, until), until, reads=True)

    async def persist(
        self,
        attempt: Callable[[], Awaitable[T]],
        until: float,
        asked: Seat | None = None,
        *,
        reads: bool = False,
    ) -> T:
        """Retry an attempt while it gets no answer; note in ``asked`` what may have run."""
        asked = asked or Seat()
        while True:
            try:
                return await attempt()
            except (NoReply, ServerError) as trouble:
                if reads and isinstance(trouble, NoReply):
                    trouble.sent = False
                await self.again(trouble, until, asked)

    async def again(self, trouble: NoReply | ServerError, until: float, asked: Seat) -> None:
        """Return when it is time for another attempt; raise when there is none."""
        try:
            again_at = self.now() + pause_after(trouble, asked, self.jitter())
            if again_at >= until:  # "not now" says more than the silence after it
                give_up(asked.refusal or trouble, asked)
        finally:
            del trouble
        await self.sleep(again_at)

    def answer_by(self, now: float, give_up_at: float) -> float:
        """Return until when to wait for an answer: never too soon for a healthy server."""
        latest = now + self.server_timeout
        if give_up_at >= latest:
            return latest
        return min(latest, max(give_up_at, now + ANSWER_SECONDS_MIN))

    # -- all that it holds -------------------------------------------------------------------------

    async def give_back_all(self, until: float) -> bool:
        """Give back every lease by an instant; return True if the servers confirmed each.

        Never raises a server's error. The client must be closed for new requests.

        A holder is notified of the loss before the release is sent (I8), and nothing renews its
        lease any more (I11): from then on another client may be granted the lock. The latest grant
        is given back first: of locks taken one inside the other, the inner one. It ends at that
        instant, whatever the servers do (I13). What no server confirmed by then is named in the
        log, and ends by its ttl.
        """
        left: list[Hold] = []
        while True:
            with self.mutex:
                held = self.renewals.clear()
            held.sort(key=lambda hold: (hold.granted_at, fence_of(hold)), reverse=True)
            holds = [hold for hold in held if self._cut_off(hold)]
            if not holds:
                break
            ours = [*holds]
            try:
                left += await self.hand_back(holds, until)
                ours.clear()
            finally:
                for hold in ours:  # the loop ends, or Ctrl-C
                    self.release_later(hold, None)
            for hold in holds:
                self.clean_up(hold)
                if hold.terms.options.kind == "election":
                    from fencelock._core.objects.election import Contest  # noqa: PLC0415 - it is loaded

                    Contest(self, hold.terms.keys).announce()
            text = "%d lease(s) were still held and were given back: the client is closed (%s)"
            log.warning(text, len(holds), listed(hold.name for hold in holds))
        if left:
            text = (
                "%d lease(s) were not confirmed to be given back in time, and end by their ttl: %s"
            )
            log.warning(text, len(left), listed(hold.name for hold in left))
        return not left

    def _cut_off(self, hold: Hold) -> bool:
        """End a lease for its holder; False when it had ended, or its turn is another waiter's."""
        if hold.forked or not lose(self, hold, "closed", self.now()):
            return False
        with self.mutex:
            return not hold.passes

    async def hand_back(self, holds: Sequence[Hold], until: float) -> Sequence[Hold]:
        """Release leases that ended for their holders; return those without an answer in time."""
        for hold in holds:
            hold.retire(self)
        left, tries = [*holds], 0
        while left:
            if tries:
                await self.sleep(min(until, self.now() + retry_delay(tries, self.jitter())))
            asked, left = left, []
            for first in range(0, len(asked), RELEASES_AT_ONCE):
                some = asked[first : first + RELEASES_AT_ONCE]
                if self.now() >= until:
                    return [*left, *asked[first:]]
                calls = [hold.terms.release(hold) for hold in some]
                replies = zip(some, await self.side_by_side(calls, until), strict=True)
                left += [hold for hold, reply in replies if isinstance(reply, Exception)]
            tries += 1
        return left

    # -- one server is a Cluster with one node and one slot ----------------------------------------

    def by_slot(
        self, each: Sequence[T], _key: Callable[[T], bytes], /
    ) -> Mapping[int, Sequence[T]]:
        """Return all in the only slot; very many leases come here, so nothing is asked of each."""
        return {0: each} if each else {}

    def rouse(self, waiters: Iterable[Seat], /) -> None:
        """Make waiters ask again."""
        for waiter in list(waiters):
            waiter.lose_place()
            self.wake(waiter)

    def at_home(self, work: Callable[[], None], /) -> None:
        """Do work where its flows run, from any thread: here at once, elsewhere in its loop."""
        work()

    def align(self, _hold: Hold, when: float, lease: float, /) -> float:
        """Return an instant not after ``when`` at which leases are renewed with one command."""
        return align_to_batch(when, lease)

    async def parts(self, _until: float) -> Sequence[bytes]:
        """Return one key."""
        return (b"",)

    def node_of(self, _key: bytes, /) -> Hashable | None:
        """Return the only node."""
        return ONLY

    async def renew_at(self, _node: Hashable, batches: Sequence[RenewalBatch], /) -> bool:
        """Renew leases of one node, here while all others wait; elsewhere in the background.

        False when nothing can run in the background.
        """
        await Renewer(self).renew_node(batches, self.renewals.first_end)
        return True

    async def run_packed(
        self, requests: Sequence[PackedCall], until: float, waiter: Seat | None = None
    ) -> Sequence[Reply | Exception]:
        """Run packed scripts one after the other."""
        return await outcomes(self.run(request, key, until, waiter) for request, key in requests)

    async def side_by_side(
        self, calls: Sequence[Call], until: float, /
    ) -> Sequence[Reply | Exception]:
        """Run scripts one after the other; a silent one leaves time for the others."""
        answers: list[Reply | Exception] = []
        for call in calls:
            most = self.trips.within(CALL_SECONDS_MAX, CALL_TRIPS)
            share = until if len(calls) == 1 else min(until, self.now() + most)
            answers += await outcomes([self.call(*call, share)])
        return answers

    # -- what people ask ---------------------------------------------------------------------------

    async def replies(self, _name: str, calls: Sequence[Call], /) -> list[list[Reply]]:
        """Return the answers to questions about a name: to each the one, or a majority's."""
        until, pipeline = self.now() + self.server_timeout, Pipeline[int]()

        async def send(left: Sequence[int]) -> Sequence[Reply | Exception]:
            return await self.side_by_side([calls[number] for number in left], until)

        await self.persist(lambda: pipeline.ask(range(len(calls)), send), until, reads=True)
        pipeline.check()
        return [[pipeline.answers[number]] for number in range(len(calls))]

    async def on_each(self, _name: str, flow: Callable[[Engine], Awaitable[T]], /) -> Sequence[T]:
        """Run a flow on each independent server, here the only one; return what it returned."""
        return [await flow(self)]


async def outcomes(asks: Iterable[Awaitable[Reply]]) -> list[Reply | Exception]:
    """Return what came of requests, each begun once the one before has ended."""
    answers: list[Reply | Exception] = []
    for ask in asks:
        try:
            answers.append(await ask)
        except (NoReply, FencelockError) as error:
            answers.append(error)
    return answers


@describes_errors
async def holder_of(port: Engine, keys: LockKeys) -> bytes | None:
    """Return the id of the lock's present holder, or None."""
    return await port.value_of(keys)
