"""What a client does with its locks on one server, also on the one that Sentinels name.

A port inherits it. A Cluster's port and a quorum's replace what differs there
(``_topology/cluster.py``, ``_topology/quorum.py``): so a flow calls the port that it was given, and
never asks which servers it runs on.

What few programs need is imported when it is first called: a command of the shell pays for each
module when it starts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain

from fencelock._core.deadlines import align_to_batch
from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.idle import is_idle
from fencelock._core.lock.maintain import CALL_SECONDS_MAX, maintain, renew_node
from fencelock._core.lock.release import hand_back
from fencelock._core.lock.renew import renew
from fencelock._core.lock.renewal_schedule import RenewalBatch
from fencelock._core.lock.terms import may_linger
from fencelock._core.lock.turns import give_back, release_later, take
from fencelock._core.port import Port
from fencelock._core.retry import Together, command, persist
from fencelock._core.round_trips import CALL_TRIPS, RoundTrips
from fencelock._core.seat import Seat
from fencelock._core.types import Call, NoReply, Reply
from fencelock._core.wire import Replicas
from fencelock._runtime.typed import Any, TypeVar
from fencelock.errors import FencelockError

T = TypeVar("T")

ONLY = "server"  # the only node
NEAR = RoundTrips()  # never noted


class Engine:
    """The flows of one server. Their first parameter is the port: here they are its methods."""

    replicas: Replicas | None = None
    publishes: bytes = b"PUBLISH"  # to a channel of another program's
    together: int = 1  # a server that works through many scripts in a row serves no other client

    @property
    def trips(self) -> RoundTrips:
        """Return the round trips that bound its calls."""
        return NEAR

    take = take
    give_back = give_back
    release_later = release_later
    hand_back = hand_back
    maintain = maintain
    renew = renew

    def clean_up(self: Port, hold: Hold) -> None:
        """Undo what may still come of the requests of a hold that has ended."""
        hold.undo_owed(self)

    async def value_of(self: Port, keys: LockKeys, /) -> bytes | None:
        """Return the id of the client that holds a lock and uses it, or None."""
        holder: bytes | None = await command(self, (b"GET", keys.lock), keys.lock)
        if holder is not None and may_linger(holder) and await is_idle(self, keys, holder):
            return None
        return holder

    async def ask_for(
        self: Port, attempt: Attempt, _at: float, until: float, /, *, listen: bool
    ) -> Reply:
        """Connect an attempt, and send its question."""
        await self.open(attempt, until, listen=listen)
        attempt.reckon(self.trips)
        reply = await self.run(attempt.question(self.now()), attempt.key, until, attempt)
        if self.replicas is None and (type(reply) is bytes or not listen):
            self.close(attempt)
        return reply

    def track(self: Port, hold: Hold, when: float) -> None:
        """Put a new hold into the renewal schedule, and attend to it."""
        with self.mutex:
            self.renewals.young[hold] = when
        self.attend(hold, when)

    def move(self: Port, hold: Hold, when: float) -> None:
        """Schedule a tracked hold for another instant."""
        with self.mutex:
            if not hold.open or hold.notified:
                return
            self.renewals.discard(hold)
            self.renewals.young[hold] = when
        self.attend_by(when)

    # -- one server is a Cluster with one node and one slot ----------------------------------------

    def by_slot(
        self, each: Sequence[T], _key: Callable[[T], bytes], /
    ) -> Mapping[int, Sequence[T]]:
        """Return all in the only slot; very many leases come here, so nothing is asked of each."""
        return {0: each} if each else {}

    def at_home(self, work: Callable[[], None], /) -> None:
        """Do work at once."""
        work()

    def align(self, _hold: Hold, when: float, lease: float, /) -> float:
        """Have leases of one length be due together; see deadlines.py."""
        return align_to_batch(when, lease)

    async def parts(self, _until: float) -> Sequence[bytes]:
        """Return one key."""
        return (b"",)

    def node_of(self, _key: bytes, /) -> object:
        """Return the only node."""
        return ONLY

    async def renew_at(self: Port, _node: object, batches: Sequence[RenewalBatch], /) -> bool:
        """Renew them now, while all other leases wait."""
        await renew_node(self, batches, self.renewals.first_end)
        return True

    async def run_together(
        self: Port, calls: Sequence[Call], until: float, waiter: Seat | None = None
    ) -> Sequence[Reply | Exception]:
        """Run scripts one after the other."""
        answers: list[Reply | Exception] = []
        for call in calls:
            try:
                answers.append(await self.call(*call, until, waiter))
            except (NoReply, FencelockError) as error:
                answers.append(error)
        return answers

    async def run_on_nodes(
        self: Port, groups: Sequence[Sequence[Call]], until: float
    ) -> Sequence[Sequence[Reply | Exception]]:
        """Run scripts one after the other; a silent one leaves time for the others."""
        calls, answers = [*chain(*groups)], list[Reply | Exception]()
        for call in calls:
            most = self.trips.within(CALL_SECONDS_MAX, CALL_TRIPS)
            share = until if len(calls) == 1 else min(until, self.now() + most)
            answers += await self.run_together([call], share)
        return [answers]

    async def side_by_side(
        self: Port, calls: Sequence[Call], until: float, /
    ) -> Sequence[Reply | Exception]:
        """Run scripts, all nodes in parallel; return their replies, or the error of each."""
        nodes: dict[object, list[int]] = {}
        for number, (_, keys, _) in enumerate(calls):
            nodes.setdefault(self.node_of(keys[0]) or number, []).append(number)
        groups = [[calls[number] for number in numbers] for numbers in nodes.values()]
        answers = chain(*await self.run_on_nodes(groups, until))
        by_number = dict(zip(chain(*nodes.values()), answers, strict=True))
        return [by_number[number] for number in range(len(calls))]

    # -- what people ask ---------------------------------------------------------------------------

    async def replies(self: Port, _name: str, calls: Sequence[Call], /) -> list[list[Reply]]:
        """Return the one answer to each."""
        until, together = self.now() + self.server_timeout, Together[int]()

        async def send(left: Sequence[int]) -> Sequence[Reply | Exception]:
            return await self.side_by_side([calls[number] for number in left], until)

        await persist(self, lambda: together.ask(range(len(calls)), send), until, reads=True)
        together.check()
        return [[together.answers[number]] for number in range(len(calls))]

    async def on_each(
        self: Port, _name: str, flow: Callable[[Port], Awaitable[Any]], /
    ) -> Sequence[Any]:
        """Run a flow on the server."""
        return [await flow(self)]


@describes_errors
async def holder_of(port: Port, keys: LockKeys) -> bytes | None:
    """Return the id of the lock's present holder, or None."""
    return await port.value_of(keys)
