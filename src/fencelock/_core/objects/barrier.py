"""Barrier: wait until a number of parties have arrived; then all go on together, or none does.

Rules of this file:

- A wait is one party. It arrives once, however often it asks (I4), and learns the outcome of its
  generation: all passed, or the barrier broke for all.
- A waiting party sends a heartbeat every two seconds (I7). It waits for the end of its generation,
  which one message announces (I6).
- A party that leaves by a timeout breaks the barrier. A cancelled party gives its place back (I9),
  unless its action has begun: then the barrier breaks for all.
- The last party to arrive runs the action, and then lets the others pass. Its heartbeats are sent
  while the action runs.
- A party that finds the barrier shut, because an action runs or another party may be dead, has no
  place, and arrives again when it is notified.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Self

from fencelock._core.deadlines import HEARTBEAT_SECONDS
from fencelock._core.error_messages import describes_errors
from fencelock._core.lock.terms import milliseconds
from fencelock._core.objects.state_wait import StateSpec, StateWait
from fencelock._core.types import Args, Call, Reply
from fencelock.errors import BarrierBroken, FencelockError
from fencelock.scripts import BARRIER_ARRIVE, BARRIER_CHANGE, BARRIER_CHECK

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# With a timeout of 0 the party still arrives first: the last one passes.
SHORTEST_SECONDS = 1e-9

WHY = {
    "timeout": "the timeout of a party ended",
    "abort": "it was aborted",
    "reset": "it was reset while parties waited",
    "dead": "a party died, or no longer gave proof of life",
    "lost": "it was deleted, or the server forgot the waiting parties",
    "left": "this party had left already",
    "deleted": "it was deleted while parties waited",
}

Action = Callable[[], Awaitable[None] | None]


def head(port: Engine, spec: StateSpec) -> Args:
    """Return the arguments that all scripts take."""
    return (spec.of, milliseconds(spec.idle_ttl), milliseconds(port.server_timeout))


# The place of a party that found the barrier shut: none in that generation.
FULL = b"full"
# The place of the party whose action has begun.
ACTING = b"acting"


class Party(StateWait):
    """One wait at a barrier, which ends as ``passed``, ``again`` or ``broken``.

    Before that the last one to arrive is to ``act``.
    """

    lists_channels = False  # each has its own entry

    place: bytes = b""  # its index
    detail: bytes = b""  # the index with which it passed, or the reason
    action: Action | None = None
    give_up_at: float = inf

    def first(self, asked_us: int) -> Call:
        """Arrive."""
        del asked_us  # its id shows whether it arrived before
        spec = self.spec
        args = (*head(self.port, spec), self.id, self.channel, int(spec.acts))
        return BARRIER_ARRIVE, spec.keys.all, args

    def check(self, others: Sequence[Self] = ()) -> Call:
        """Send the heartbeat of these parties, and ask for the outcome of each."""
        return self._ask(b"look", others)

    def leave(self, *, late: bool, shared: bool) -> Call:
        """Leave: a timeout or a failed action breaks the barrier, a cancellation does not."""
        del shared
        how = b"abort" if self.place == ACTING else b"leave"
        return self._ask(b"timeout" if late else how)

    def _ask(self, what: bytes, others: Sequence[Self] = ()) -> Call:
        words: list[bytes | int] = []
        for each in (self, *others):
            words += (each.id, each.channel, b"" if each.place != FULL else each.gen)
        return BARRIER_CHECK, self.spec.keys.all, (*head(self.port, self.spec), what, *words)

    def take(self, reply: Reply) -> None:
        """Take an answer."""
        word, gen, detail = reply
        if word in {FULL, b"wait"}:
            self.place = FULL if word == FULL else detail
            self.settle(gen)
        else:
            self.verdict, self.detail = word.decode(), detail

    def ended(self, outcome: bytes) -> None:
        """Take the message that the generation ended."""
        if self.place == FULL:
            self.verdict = "again"
        elif outcome == b"again":
            return  # for those without a place
        elif outcome == b"passed":
            self.verdict, self.detail = "passed", self.place
        else:
            self.verdict, self.detail = "broken", outcome

    async def then(self) -> None:
        """Run the action if it is to, then let all pass; when it raises, break the barrier."""
        if self.verdict != "act":
            return
        port, spec = self.port, self.spec
        try:
            if self.action is not None:
                self.place = ACTING
                async with port.repeating(self._prove, HEARTBEAT_SECONDS):
                    if (running := self.action()) is not None:  # else one of threads: it has ended
                        await running
        except Exception:
            with contextlib.suppress(FencelockError):  # the undo of the wait aborts it, too
                await change(port, spec, b"abort", self.give_up_at)
            raise
        until = port.answer_by(port.now(), self.give_up_at)
        args = (*head(port, spec), b"pass", self.id)
        word, _, self.detail = await port.ask(BARRIER_CHANGE, spec.keys.all, args, until)
        self.verdict = word.decode()

    async def _prove(self) -> None:
        """Send the heartbeat of the party that runs the action; retry until the next one is due.

        Without the retry, a short outage would look like a death.
        """
        with contextlib.suppress(FencelockError):
            await self.port.ask(*self.check(), self.port.now() + HEARTBEAT_SECONDS)


@describes_errors
async def wait_at(
    port: Engine,
    spec: StateSpec,
    timeout: float | None,
    error: type[BarrierBroken],
    action: Action | None = None,
) -> int:
    """Wait for the others and return this party's index; raise ``error`` when it broke."""
    give_up_at = inf if timeout is None else port.now() + timeout
    while True:
        party = Party(port, spec)
        party.action, party.give_up_at = action, give_up_at
        left = None if timeout is None else max(SHORTEST_SECONDS, give_up_at - port.now())
        word, detail = await party.outcome(left), party.detail
        if word is None:  # the server is far away: it gets the request later
            word, detail = "broken", b"timeout"
        if word == "passed":
            return int(detail)
        if word == "broken":
            name, reason = spec.keys.name, detail.decode()
            text = f"{name!r} is broken: {WHY.get(reason, reason)}"
            raise error(text, name=name, reason=reason, server=port.label)


@describes_errors
async def change(
    port: Engine, spec: StateSpec, what: bytes, give_up_at: float = inf
) -> tuple[int, str]:
    """Abort, reset, delete or read a barrier.

    Returns how many parties wait, and why it is broken (empty when it is not).
    """
    args = (*head(port, spec), what, port.new_id())
    until = port.answer_by(port.now(), give_up_at)
    looks = what == b"look"
    waiting, why = await port.ask(BARRIER_CHANGE, spec.keys.all, args, until, reads=looks)
    return waiting, why.decode()
