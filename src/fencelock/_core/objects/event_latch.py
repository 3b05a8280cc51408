"""Event and latch: states that many clients wait for, each changed by one script."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import SignalKeys
from fencelock._core.lock.terms import milliseconds
from fencelock._core.objects import state_wait
from fencelock._core.objects.state_wait import StateWaiter
from fencelock._core.retry import ask
from fencelock._core.seat import Seat
from fencelock._core.types import Args, Call, Reply
from fencelock.scripts import EVENT, EVENT_WAIT, LATCH

if TYPE_CHECKING:
    from fencelock._core.engine import Engine


class EventSpec(NamedTuple):
    """A state that is open or closed: an event, or a latch that begins with a count (``of``)."""

    keys: SignalKeys
    kind: bytes
    idle_ttl: float
    of: int = 0

    @property
    def lists_channels(self) -> bool:
        """Return True: one may still be listed after a wait, if an earlier answer was lost."""
        return True

    def _ask(self, what: bytes, words: Args) -> Call:
        begins = b"%d" % self.of if self.of else b""
        head = (self.kind, milliseconds(self.idle_ttl), begins, what)
        return EVENT_WAIT, self.keys.all, (*head, *words)

    def first(self, watcher: StateWaiter, asked_us: int) -> Call:
        """Ask for the first time, or again without an answer so far."""
        return self._ask(b"wait", (watcher.channel, b"", asked_us))

    def check(self, watchers: list[StateWaiter]) -> Call:
        """Ask for several waiters that know their generation."""
        words = [word for each in watchers for word in (each.channel, each.gen, 0)]
        return self._ask(b"wait", words)

    def leave(self, watcher: StateWaiter, *, late: bool, shared: bool) -> Call:
        """Ask one last time."""
        del late
        return self._ask(b"leave", (b"" if shared else watcher.channel, watcher.gen, 0))

    def learn(self, watcher: StateWaiter, reply: Reply) -> None:
        """Take an answer."""
        passed, gen, listed = reply
        if passed:
            watcher.verdict = True
            return
        watcher.settle(gen)
        if not listed:
            watcher.lose_place()

    def hear(self, watcher: StateWaiter, outcome: bytes) -> None:
        """Take the message that the generation ended: the state was open, if only for a moment."""
        del outcome
        watcher.verdict = True


@describes_errors
async def wait_until_open(port: Engine, spec: EventSpec, timeout: float | None) -> bool:
    """Wait until it is open; return False when it was not open in time."""
    return bool(await state_wait.wait_for(port, spec, timeout))


# At most this many answered requests are forgotten with the next request.
ANSWERED_MAX = 100


@describes_errors
async def change(
    port: Engine, spec: EventSpec, what: bytes, by: int = 0, answered: list[bytes] | None = None
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
    reply: int = await ask(port, script, spec.keys.all, args, asked=asked, reads=looks)
    if answered is not None and not looks and not asked.tries:
        answered.append(who)
    return reply
