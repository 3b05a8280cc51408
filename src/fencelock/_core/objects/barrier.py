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
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from fencelock._core.deadlines import HEARTBEAT_SECONDS
from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import SignalKeys
from fencelock._core.lock.terms import milliseconds
from fencelock._core.objects import state_wait
from fencelock._core.objects.state_wait import StateWaiter
from fencelock._core.retry import answer_by, ask
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


class PartyResult(NamedTuple):
    """What became of a party: ``passed``, ``act``, ``again`` or ``broken``."""

    word: str
    detail: bytes  # the index, or the reason


class BarrierSpec(NamedTuple):
    """A barrier, as the parties of one handle wait at it."""

    keys: SignalKeys
    parties: int
    idle_ttl: float
    acts: bool = False
    server_timeout: float = 5.0  # for how long a party retries a silent server

    @property
    def lists_channels(self) -> bool:
        """Return False: each party has its own entry."""
        return False

    @property
    def head(self) -> Args:
        """Return the arguments that all scripts take."""
        return (self.parties, milliseconds(self.idle_ttl), milliseconds(self.server_timeout))

    def first(self, watcher: StateWaiter, asked_us: int) -> Call:
        """Arrive."""
        del asked_us  # the waiter's id shows whether it arrived before
        args = (*self.head, watcher.id, watcher.channel, int(self.acts))
        return BARRIER_ARRIVE, self.keys.all, args

    def check(self, watchers: list[StateWaiter]) -> Call:
        """Send the heartbeat of these parties, and ask for the outcome of each."""
        return self._look(b"look", watchers)

    def leave(self, watcher: StateWaiter, *, late: bool, shared: bool) -> Call:
        """Leave: a timeout or a failed action breaks the barrier, a cancellation does not."""
        del shared  # each waiter has its own entry in the list
        how = b"abort" if watcher.place == ACTING else b"leave"
        return self._look(b"timeout" if late else how, [watcher])

    def _look(self, what: bytes, watchers: list[StateWaiter]) -> Call:
        words: list[bytes | int] = []
        for each in watchers:
            words += (each.id, each.channel, b"" if each.place != FULL else each.gen)
        return BARRIER_CHECK, self.keys.all, (*self.head, what, *words)

    def learn(self, watcher: StateWaiter, reply: Reply) -> None:
        """Take an answer."""
        word, gen, detail = reply
        if word in {FULL, b"wait"}:
            watcher.place = FULL if word == FULL else detail
            watcher.settle(gen)
        else:
            watcher.verdict = PartyResult(word.decode(), detail)

    def hear(self, watcher: StateWaiter, outcome: bytes) -> None:
        """Take the message that the generation ended."""
        if watcher.place == FULL:
            watcher.verdict = PartyResult("again", b"")
        elif outcome == b"again":
            return  # for those without a place
        elif outcome == b"passed":
            watcher.verdict = PartyResult("passed", watcher.place)
        else:
            watcher.verdict = PartyResult("broken", outcome)


# The place of a party that found the barrier shut: none in that generation.
FULL = b"full"
# The place of the party whose action has begun.
ACTING = b"acting"


@describes_errors
async def wait_at(
    port: Engine,
    spec: BarrierSpec,
    timeout: float | None,
    error: type[BarrierBroken],
    action: Action | None = None,
) -> int:
    """Wait for the others and return this party's index; raise ``error`` when it broke."""
    give_up_at = state_wait.FOR_EVER if timeout is None else port.now() + timeout

    async def then(watcher: StateWaiter) -> None:
        if watcher.verdict is not None and watcher.verdict.word == "act":
            watcher.verdict = await _act(port, spec, watcher, action, give_up_at)

    while True:
        left = None if timeout is None else max(SHORTEST_SECONDS, give_up_at - port.now())
        outcome = await state_wait.wait_for(port, spec, left, then)
        if outcome is None:  # the server is far away: it gets the request later
            outcome = PartyResult("broken", b"timeout")
        if outcome.word == "passed":
            return int(outcome.detail)
        if outcome.word == "broken":
            name, reason = spec.keys.name, outcome.detail.decode()
            text = f"{name!r} is broken: {WHY.get(reason, reason)}"
            raise error(text, name=name, reason=reason, server=port.label)


async def _act(
    port: Engine, spec: BarrierSpec, watcher: StateWaiter, action: Action | None, give_up_at: float
) -> PartyResult:
    """Run the action, then let all pass; when it raises, break the barrier."""
    try:
        if action is not None:
            watcher.place = ACTING
            async with port.repeating(lambda: _prove(port, spec, watcher), HEARTBEAT_SECONDS):
                if (running := action()) is not None:  # else one of threads, which has ended
                    await running
    except Exception:
        with contextlib.suppress(FencelockError):  # the undo of the wait aborts it, too
            await change(port, spec, b"abort", give_up_at)
        raise
    until = answer_by(port, port.now(), give_up_at)
    args = (*spec.head, b"pass", watcher.id)
    word, _, detail = await ask(port, BARRIER_CHANGE, spec.keys.all, args, until)
    return PartyResult(word.decode(), detail)


async def _prove(port: Engine, spec: BarrierSpec, watcher: StateWaiter) -> None:
    """Send the heartbeat of the party that runs the action; retry until the next one is due.

    Without the retry, a short outage would look like a death.
    """
    with contextlib.suppress(FencelockError):
        await ask(port, *spec.check([watcher]), port.now() + HEARTBEAT_SECONDS)


@describes_errors
async def change(
    port: Engine, spec: BarrierSpec, what: bytes, give_up_at: float = state_wait.FOR_EVER
) -> tuple[int, str]:
    """Abort, reset, delete or read a barrier.

    Returns how many parties wait, and why it is broken (empty when it is not).
    """
    args = (*spec.head, what, port.new_id())
    until = answer_by(port, port.now(), give_up_at)
    looks = what == b"look"
    waiting, why = await ask(port, BARRIER_CHANGE, spec.keys.all, args, until, reads=looks)
    return waiting, why.decode()
