"""Renew leases at their holder's request: one, or all of a multi in parallel.

Rules of this file:

- A renewal only prolongs, by hand or not, and whenever it runs: no script and no answer makes a
  lease end earlier (I15). So two renewals of a lease may be under way at once, and a copy that
  comes late does no harm: it prolongs what is held by the same holder id, or finds nothing.
- A release does not wait for a renewal. It closes the hold; no later answer changes a closed hold.
- The turn of a lease may be passed on beside a renewal of the usual length, and a refusal is about
  the next turn, too, whose holder id is the same. A renewal for longer makes it the last turn, in
  the section that sees the turn still open: its late copy would leave the lease to others' turns.
- A lease that was renewed by hand, or whose renewal got no answer, is not kept while it is idle:
  the server may have it for longer than its client knows.
- All leases without an answer are renewed at once, and each answer counts by itself: a silent node
  holds up only its own leases.
- For each lease the rules of ``maintain.py`` hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._core import events
from fencelock._core.error_messages import describe_error, describes_errors
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.maintain import (
    CALL_SECONDS_MAX,
    Answer,
    Renewer,
    refusals,
    renewal_request,
)
from fencelock._core.retry import Pipeline
from fencelock._core.round_trips import CALL_TRIPS
from fencelock._core.types import Call, NoReply
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import ClientClosed, FencelockError, NotHeld, ServerError

if TYPE_CHECKING:
    from fencelock._core.engine import Engine


@describes_errors
async def renew_now(port: Engine, hold: Hold, ttl: float | None) -> None:
    """Renew one lease that is held, for ``ttl`` seconds or its usual length, within its limits.

    It never ends earlier than before.

    Raises LeaseLost when it was lost or is refused; like ``ask`` when no answer comes, and
    NotAcknowledged: then the lease stays as it was.
    """
    if ttl is None and hold.terms.options.fixed_end:
        return
    check_tended(hold)
    await port.renew([hold], ttl)


def check_tended(hold: Hold) -> None:
    """Raise as ``check``, and NotHeld when the handle is gone: nothing renews the lease then."""
    hold.check()
    if hold.dropped:
        text = f"the handle of {hold.name!r} is gone: its lease is not renewed any more"
        raise NotHeld(text, name=hold.name, server=hold.server)


def length_of(hold: Hold, ttl: float | None, now: float) -> float:
    """Return for how long its holder may renew a lease that is to last for ``ttl``, or as usual."""
    return hold.within_limits(hold.usual if ttl is None else ttl, now)


class Renewals(Pipeline[Hold]):
    """The renewals that the holder of one lease or several requests at once."""

    def __init__(self, port: Engine, ttl: float | None) -> None:
        super().__init__()
        self._port, self._ttl = port, ttl
        self._renewer = Renewer(port)
        self._until = self._sent_at = 0.0
        self._ttls: Sequence[float] = ()

    async def renew(self, holds: Sequence[Hold]) -> None:
        """Renew leases; see ``Engine.renew``."""
        for hold in holds:
            check_tended(hold)
        usual = self._ttl is None
        holds = [hold for hold in holds if not (usual and hold.terms.options.fixed_end)]
        if not holds:
            return
        port = self._port
        self._until = min(port.now() + port.server_timeout, *[hold.deadline for hold in holds])
        try:
            await port.persist(lambda: self.ask(holds, self.send), self._until)
        except FencelockError as error:
            left = self.left(holds)
            if isinstance(error, (ClientClosed, ServerError)):
                events.renewed(left, error)
            describe_error(port, error, ", ".join(hold.name for hold in left))
            raise
        for hold in holds:
            check_tended(hold)
        self.check()

    async def took(self, parts: Sequence[Hold]) -> None:
        """Apply what was answered; raise a loss at once, but not that of one that was silent."""
        for hold, ttl in zip(parts, self._ttls, strict=True):
            if hold in self.answers:
                refused, missing = self.answers[hold]
                if missing is not None:
                    self.refused[hold] = missing
                    continue
                self._renewer.apply([hold], [ttl], self._sent_at, refused)
                if refused:
                    await self._renewer.notify_refused({hold: refused[0]}, self._until)
            elif hold in self.refused:
                events.renewed([hold], self.refused[hold])
        for hold in parts:
            if hold in self.answers or (hold.loss is not None and hold.loss.reason != "expired"):
                hold.check()

    async def send(self, left: Sequence[Hold]) -> Sequence[Answer | Exception]:
        """Ask for these; one that is repeated is nearer to its limits."""
        self._sent_at = now = self._port.now()
        self._ttls = [length_of(hold, self._ttl, now) for hold in left]
        self._begin(left)
        asked = [renewal_request([hold], [ttl]) for hold, ttl in zip(left, self._ttls, strict=True)]
        if self._port.replicas is not None:
            return await self._one_by_one(left, asked)
        replies = await self._port.side_by_side(asked, self._until)
        return [
            reply if isinstance(reply, Exception) else (refusals([hold], reply), None)
            for hold, reply in zip(left, replies, strict=True)
        ]

    def _begin(self, holds: Sequence[Hold]) -> None:
        """Note that leases are about to be renewed: the server may have each for longer than known.

        Raises as ``check_tended`` when the turn of one is over: the next is not its holder's to
        renew.
        """
        with self._port.mutex:
            over = [hold for hold in holds if not hold.open]
            for hold, ttl in () if over else zip(holds, self._ttls, strict=True):
                hold.may_grow = True
                hold.last = hold.last or ttl > hold.usual
        for hold in over:
            check_tended(hold)

    async def _one_by_one(
        self, holds: Sequence[Hold], asked: Sequence[Call]
    ) -> list[Answer | Exception]:
        """Ask one after the other, because replicas acknowledge; ask a silent node only once."""
        port, silent = self._port, dict[object, NoReply]()
        answers: list[Answer | Exception] = []
        for hold, call in zip(holds, asked, strict=True):
            place = port.node_of(hold.terms.keys.lock)
            if place is not None and place in silent:
                answers.append(NoReply(str(silent[place]), sent=False))
                continue
            by = min(self._until, port.now() + port.trips.within(CALL_SECONDS_MAX, CALL_TRIPS))
            try:
                renewing = self._renewer.renew_confirmed([hold], call, by, hold.deadline)
                answers.append(await renewing)
            except (NoReply, FencelockError) as error:
                answers.append(error)
                if isinstance(error, NoReply):
                    silent[place] = error
        return answers
