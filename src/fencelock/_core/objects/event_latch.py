"""Event and latch: states that many clients wait for, each changed by one script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from fencelock._core.error_messages import describes_errors
from fencelock._core.lock.terms import milliseconds
from fencelock._core.objects.state_wait import StateSpec, StateWait
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Call, Reply
from fencelock.scripts import EVENT, EVENT_WAIT, LATCH

if TYPE_CHECKING:
    from fencelock._core.engine import Engine


class GateWait(StateWait):
    """One wait for an event or a latch. It may still be listed later, if an answer was lost."""

    def _ask(self, what: bytes, words: Args) -> Call:
        spec = self.spec
        begins = b"%d" % spec.of if spec.of else b""
        head = (spec.kind, milliseconds(spec.idle_ttl), begins, what)
        return EVENT_WAIT, spec.keys.all, (*head, *words)

    def first(self, asked_us: int) -> Call:
        """Ask for the first time, or again without an answer so far."""
        return self._ask(b"wait", (self.channel, b"", asked_us))

    def check(self, others: Sequence[Self]) -> Call:
        """Ask for it and other waiters, which all know their generation."""
        words = [word for each in (self, *others) for word in (each.channel, each.gen, 0)]
        return self._ask(b"wait", words)

    def leave(self, *, late: bool, shared: bool) -> Call:
        """Ask one last time."""
        del late
        return self._ask(b"leave", (b"" if shared else self.channel, self.gen, 0))

    def take(self, reply: Reply) -> None:
        """Take an answer."""
        passed, gen, listed = reply
        if passed:
            self.verdict = "open"
            return
        self.settle(gen)
        if not listed:
            self.lose_place()

    def ended(self, outcome: bytes) -> None:
        """Take the message that the generation ended: the state was open, if only for a moment."""
        del outcome
        self.verdict = "open"


@describes_errors
async def wait_until_open(port: Engine, spec: StateSpec, timeout: float | None) -> bool:
    """Wait until it is open; return False when it was not open in time."""
    return await GateWait(port, spec).outcome(timeout) is not None


# At most this many answered requests are forgotten with the next request.
ANSWERED_MAX = 100


@describes_errors
async def change(
    port: Engine, spec: StateSpec, what: bytes, by: int = 0, answered: list[bytes] | None = None
) -> int:
    """Change, delete or read an event or latch; return 1 if it is set, or the count that is left.

    A change counts once, however often the request is repeated (I4). The server remembers its id
    for as long as a copy of it may arrive. A request that was answered at the first try has no
    copies: its id goes to ``answered``, and the next request makes the server forget it. So a
    handle that changes a state in a loop leaves one id on the server, not thousands.
    """
    asked, who = Seat(), port.new_id()
    done: list[bytes] = [] if answered is None else answered[:ANSWERED_MAX]
    if answered is not None:
        del answered[: len(done)]
    timeout_ms = milliseconds(port.server_timeout)
    script, words = (LATCH, (spec.of, by)) if spec.of else (EVENT, ())
    args: Args = (what, milliseconds(spec.idle_ttl), who, *words, timeout_ms, *done)
    looks = what == b"look"
    reply: int = await port.ask(script, spec.keys.all, args, asked=asked, reads=looks)
    if answered is not None and not looks and not asked.tries:
        answered.append(who)
    return reply
