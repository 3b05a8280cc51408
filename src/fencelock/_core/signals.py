"""Event and latch: states that many wait for, changed by one script each."""

from __future__ import annotations

from typing import NamedTuple

from fencelock._core import watch
from fencelock._core.ask import ask
from fencelock._core.attempt_log import Asked
from fencelock._core.keys import SignalKeys
from fencelock._core.port import Port
from fencelock._core.question import Question, Watcher
from fencelock._core.trouble import tells_trouble
from fencelock._core.types import Args, Reply
from fencelock._core.want import milliseconds
from fencelock.scripts import EVENT, GATE_WAIT, LATCH, Script


class Gate(NamedTuple):
    """A state that is open or not: an event, or a latch that begins with a count (``of``)."""

    keys: SignalKeys
    kind: bytes
    idle_ttl: float
    of: int = 0

    @property
    def key(self) -> bytes:
        """Return the state's own key."""
        return self.keys.state

    @property
    def name(self) -> str:
        """Return the name."""
        return self.keys.name

    @property
    def _begins(self) -> bytes:
        return b"%d" % self.of if self.of else b""

    def _ask(self, what: bytes, words: Args) -> Question:
        head = (self.kind, milliseconds(self.idle_ttl), self._begins, what)
        return Question(GATE_WAIT, self.keys.watch, (*head, *words))

    def first(self, watcher: Watcher, asked_us: int) -> Question:
        """Ask for the first time, or again without an answer so far."""
        return self._ask(b"wait", (watcher.channel, b"", asked_us))

    def look(self, watchers: list[Watcher]) -> Question:
        """Ask for several who know their generation."""
        words = [word for each in watchers for word in (each.channel, each.gen, 0)]
        return self._ask(b"wait", words)

    @property
    def lingers(self) -> bool:
        """Tell that who passed by a look may be on the list, if an earlier answer was lost."""
        return True

    @property
    def leaves(self) -> bool:
        """Tell that a wait without a verdict leaves the list by itself."""
        return True

    @property
    def proves_each(self) -> bool:
        """Tell that a look counts for all who listen to a channel."""
        return False

    def leave(self, watcher: Watcher, *, late: bool, shared: bool) -> Question:
        """Ask one last time."""
        del late
        return self._ask(b"leave", (b"" if shared else watcher.channel, watcher.gen, 0))

    def learn(self, watcher: Watcher, reply: Reply) -> None:
        """Take an answer."""
        passed, gen, listed = reply
        if passed:
            watcher.verdict = True
            return
        watcher.settle(gen)
        if not listed:
            watcher.lose_place()

    def hear(self, watcher: Watcher, outcome: bytes) -> None:
        """Take the message that the generation ended: it was open for a moment at least."""
        del outcome
        watcher.verdict = True


@tells_trouble
async def passes(port: Port, gate: Gate, patience: float | None) -> bool:
    """Wait until it is open; False when it was not in time."""
    return bool(await watch.wait_for(port, gate, patience))


# Requests that were answered, and that the next one has the server forget; so many at a time.
ANSWERED_MAX = 100


@tells_trouble
async def change_event(
    port: Port, gate: Gate, what: bytes, answered: list[bytes] | None = None
) -> bool:
    """Set, clear, delete or look at an event; return whether it is set now.

    ``answered`` keeps what the handle's requests are known by, see ``_change``.
    """
    head = (what, milliseconds(gate.idle_ttl))
    return bool(await _change(port, gate, (EVENT, head, ()), answered))


@tells_trouble
async def change_latch(
    port: Port, gate: Gate, what: bytes, by: int = 0, answered: list[bytes] | None = None
) -> int:
    """Count a latch down, close it, delete it or look at it; return the count that is left."""
    head = (what, milliseconds(gate.idle_ttl))
    left: int = await _change(port, gate, (LATCH, head, (gate.of, by)), answered)
    return left


async def _change(
    port: Port,
    gate: Gate,
    question: tuple[Script, Args, Args],
    answered: list[bytes] | None,
) -> Reply:
    """Ask for a change that counts once, however often it is asked for (I4).

    The server remembers a request for as long as a copy of it may come. One that was answered at
    the first try has no copies: its id goes to ``answered``, and the next request tells the server
    to forget it. So a handle that changes a state in a loop leaves one id there, not thousands.
    """
    script, head, tail = question
    asked, who = Asked(), port.new_id()
    done: list[bytes] = [] if answered is None else answered[:ANSWERED_MAX]
    if answered is not None:
        del answered[: len(done)]
    args = (*head, who, *tail, milliseconds(port.patience), *done)
    reply = await ask(port, script, gate.keys.change, args, port.now() + port.patience, asked=asked)
    if answered is not None and head[0] != b"look" and not asked.tries:
        answered.append(who)
    return reply
