"""Watches conditions in a world, and says what broke.

What holds of the lock holds here too: the monitor of locks looks on. Besides: who returns True was
notified, a notification is not lost while somebody waits, and nobody is left in a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fencelock._core.keys import ConditionKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.request import AcquireRequest, LeaseOptions
from fencelock._core.objects import condition
from fencelock.errors import LeaseLost, OutcomeUnknown, ServerError
from verification.simulator.actors import KEYS, Actor, _Watch
from verification.simulator.monitor import Monitor, Violation
from verification.simulator.server import Request
from verification.simulator.view import View

if TYPE_CHECKING:
    from verification.simulator.simulation import World

PLACE = condition.ConditionId(ConditionKeys(KEYS), "lock")


class Shown(_Watch):
    """Shows the monitor each hold, and keeps the newest."""

    newest: Hold | None = None

    def add(self, hold: Hold) -> None:
        """Show and keep it."""
        super().add(hold)
        self.newest = hold


class ConditionMonitor(Monitor):
    """Checks one condition of the lock."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._notified: set[bytes] = set()  # who was notified
        self._marked: set[bytes] = set()  # whose notification may still be passed on
        self._held: set[bytes] = set()  # whom the lock was granted to
        self._passed_on: set[bytes] = set()
        self._in_vain: list[bytes] = []  # living waiters that returned False
        self._forgot = False
        self._moved: dict[Any, int] = {}  # how many a request has notified

    # -- what processes report ------------------------------------------------------------------

    async def waits(
        self,
        actor: Actor,
        hold: Hold,
        timeout: float | None,
        options: LeaseOptions,
        struck: BaseException | None = None,
    ) -> tuple[bool | None, Hold | None]:
        """Wait as a face does; return what came of it, and the new hold.

        ``struck``: what a signal raises just when the hold was taken out.
        """
        shown, requests = Shown(actor), []

        def take(taken: list[Hold]) -> None:
            taken.append(hold)
            if struck is not None:
                raise struck

        def request() -> AcquireRequest:
            made = actor.request(options)
            self.asks(actor.client, made)
            requests.append(made)
            return made

        asker = condition.Reacquirer(request, shown)
        try:
            notified = await condition.wait(actor.port, PLACE, take, timeout, asker)
        except LeaseLost as loss:
            if actor.port.now() < hold.deadline and not self.was_revoked(hold):
                raise Violation("I4", f"a wait under a proved lease was refused: {loss}") from loss
            return None, None
        except (ServerError, OutcomeUnknown) as error:
            if not self._world.faulty:
                raise Violation("I12", f"without any fault: {error!r}") from error
            return None, None
        except BaseException:
            if shown.newest is not None:
                await actor.release(shown.newest)
            raise
        self._judge(requests[0].waiter, notified=notified)
        return notified, shown.newest

    def _judge(self, who: bytes, *, notified: bool) -> None:
        if notified and who not in self._notified and not self._forgot and not self._world.faulty:
            raise Violation("I4", f"{who!r} returned True, and nobody notified it")
        if not notified:
            if who in self._notified and who not in self._passed_on:
                raise Violation("I6", f"{who!r} was notified, and returned False")
            self._in_vain.append(who)

    # -- the server's truth ---------------------------------------------------------------------

    def served(self, request: Request, before: View) -> None:
        """Note who was notified, and who got the lock."""
        super().served(request, before)
        known = set(self._notified)
        for name in self._members(b"~notified"):
            if name.startswith(b"told "):
                self._notified.add(name.split()[2])
        self._marked |= self._notified - known
        if request.name == "condition_notify":
            self._no_more_than_asked(request, len(self._notified - known))
        holder = self.view().holder
        if holder is not None:
            self._held.add(holder)
        if request.name in {"condition_leave", "condition_check"}:
            self._pass_on(known)

    def _pass_on(self, known: set[bytes]) -> None:
        """Note whose notification went to another, or to nobody as nobody waits."""
        marks = [name.split() for name in self._members(b"~notified")]
        gone = self._marked - {words[2] for words in marks if words[0] == b"told"}
        self._marked -= gone
        if self._notified != known or not self._members(b"~condition"):
            self._passed_on |= gone

    def _first_come(self, request: Request, before: View, after: View, *, gave_up: bool) -> None:
        """Judge as of a lock; who leaves by this request is not passed over by it."""
        if request.name == "condition_leave":
            line = tuple(entry for entry in before.line if entry.waiter != request.args[4])
            before = before._replace(line=line)
        super()._first_come(request, before, after, gave_up=gave_up)

    def _no_more_than_asked(self, request: Request, number: int) -> None:
        who, most = request.args[3], int(request.args[2])
        self._moved[who] = self._moved.get(who, 0) + number
        if 0 <= most < self._moved[who]:
            raise Violation("I4", f"{self._moved[who]} were notified, not {most}")

    def _members(self, suffix: bytes) -> list[bytes]:
        for key, (value, _) in self._world.server.state:
            if key.endswith(suffix):
                return [member for _, member in value]
        return []

    def flushed(self) -> None:
        """Note that the server forgot everything."""
        super().flushed()
        self._forgot = True

    def key(self) -> Any:
        """Return what of it decides about later violations."""
        sets = (
            frozenset(each) for each in (self._notified, self._marked, self._held, self._passed_on)
        )
        return super().key(), tuple(sets), tuple(self._in_vain), self._forgot

    def _waiting(self) -> Iterator[AcquireRequest]:
        """Yield who wants the lock: not those who wait to be notified."""
        in_line = b"\n".join(self._members(b"~condition"))
        for request in super()._waiting():
            if request.waiter not in in_line:
                yield request

    def end(self) -> None:
        """Check that no notification was lost (I6), and nobody is left in the line (I9)."""
        super().end()
        living = {request.waiter for client, request in self.requests if client.alive}
        for member in self._members(b"~condition"):
            if any(who in member for who in living) and not self._haunted:
                raise Violation("I9", f"{member!r} is still in the condition's line")
        lost = self._notified - self._held - self._passed_on
        if lost and self._in_vain and not self._forgot:
            raise Violation(
                "I6", f"the notification of {lost!r} was lost, {self._in_vain!r} waited"
            )
