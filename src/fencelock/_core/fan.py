"""Ask several nodes of a quorum at once.

Rules of this file:

- Requests are sent to all before an answer is awaited.
- Whoever gets no answer is undone behind its request (I4, I9): ``undo``, then ``put_back``.
- A silent node costs ``node_timeout`` when the others have decided, and a bounded multiple of it
  when they have not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from fencelock._core.hold import Hold
from fencelock._core.port import Port
from fencelock._core.roster import Roster
from fencelock._core.types import Broken, Reply, Request
from fencelock._core.votes import ILL_SECONDS, UNDECIDED_FACTOR
from fencelock._core.waiter import Waiter
from fencelock._core.want import Want
from fencelock.errors import (
    ClientClosed,
    FencelockError,
    OutcomeUnknown,
    QuorumNotReached,
    ServerUnreachable,
)


class Ask(Waiter):
    """One request to one node, and what came of it: an answer, or an error."""

    reply: Reply = None
    error: Broken | FencelockError | None = None
    answered_at: float = 0.0

    def __init__(self, node: int, want: Want, request: Request) -> None:
        super().__init__(want)
        self.node = node
        self.request = request

    def answer(self, reply: Reply, now: float) -> None:
        """Take the answer."""
        self.reply, self.answered_at = reply, now

    def fail(self, error: Broken | FencelockError) -> None:
        """Take the error instead of an answer."""
        self.error = error
        if isinstance(error, Broken):
            self.note(error)

    @property
    def ended(self) -> bool:
        """Return True if the answer or an error came."""
        return self.error is not None or self.answered_at > 0

    @property
    def cut_off(self) -> bool:
        """Return True if the connection was lost, not the time: another may do."""
        error = self.error
        return isinstance(error, Broken) and error.sent and error.trail is None

    @property
    def silent(self) -> bool:
        """Return True if the request may have run, and no answer came."""
        return self.began and self.answered_at == 0 and not isinstance(self.error, FencelockError)


class QuorumPort(Port, Protocol):
    """The world as the flows of a quorum see it: several ports, and how to use them at once."""

    labels: Sequence[str]
    closing: bool  # nobody may ask for anything any more
    node_timeout: float
    roster: Roster
    roster_key: bytes
    ill: dict[int, float]  # node -> the instant until which it is avoided

    @property
    def nodes(self) -> Sequence[Port]:
        """Return the ports of the nodes."""

    async def fan(self, asks: Sequence[Ask], latest: float, limit: Callable[[], float]) -> None:
        """Ask all at once. Return when all answered, or at the instant that ``limit`` returns.

        That is ``latest`` until the answers decide, and earlier from then on. Every ask has then
        ended. A cancellation leaves some that have not.
        """

    def move(self, hold: Hold, when: float) -> None:
        """Have a hold that is minded get attention at ``when``."""


class _Limit:
    """Until when answers are awaited: for ``node_timeout`` from the one that decided."""

    def __init__(
        self,
        port: QuorumPort,
        asks: Sequence[Ask],
        good: Callable[[Ask], bool],
        needed: int,
        last: float,
    ) -> None:
        self._port, self._asks, self._good = port, asks, good
        self._needed, self._last = needed, last
        self._until: float | None = None

    def limit(self) -> float:
        """Return the instant, as the answers stand now."""
        if self._until is None and self._decided():
            self._until = min(self._last, self._port.now() + self._port.node_timeout)
        return self._last if self._until is None else self._until

    def _decided(self) -> bool:
        ended = [ask for ask in self._asks if ask.ended]
        granted = sum(ask.error is None and self._good(ask) for ask in ended)
        return granted >= self._needed or granted + len(self._asks) - len(ended) < self._needed


async def fan(
    port: QuorumPort,
    asks: Sequence[Ask],
    good: Callable[[Ask], bool],
    needed: int,
    latest: float | None = None,
    *,
    patient: bool = False,
) -> list[Ask]:
    """Ask all at once and return those with a good answer, of which ``needed`` decide.

    Nobody waits beyond ``latest``; ``patient``: till then if need be, as nothing is held meanwhile.
    Whoever calls this puts the asks back when it has undone them.
    """
    last = port.now() + port.node_timeout * UNDECIDED_FACTOR
    if latest is not None:
        last = latest if patient else min(last, latest)
    over = _Limit(port, asks, good, needed, last)
    await port.fan(asks, last, over.limit)
    broken = [ask for ask in asks if ask.cut_off]
    if broken and port.now() < over.limit():
        for ask in broken:
            ask.error = None
        await port.fan(broken, last, over.limit)
    for ask in asks:
        if isinstance(ask.error, (Broken, ServerUnreachable)):
            port.ill[ask.node] = port.now() + ILL_SECONDS
        else:
            port.ill.pop(ask.node, None)
    return [ask for ask in asks if ask.error is None and good(ask)]


def undo(port: QuorumPort, asks: Iterable[Ask], *, all_of_them: bool = False) -> None:
    """Give back, in the background, what silent nodes may have granted; or what any may have."""
    for ask in asks:
        if ask.silent or (all_of_them and ask.began):
            node, want = port.nodes[ask.node], ask.want
            with node.mutex():
                node.lines.give_up(want)
            node.post(*want.abandon(b""), ask.trail or ask.seat)


def put_back(port: QuorumPort, asks: Iterable[Ask]) -> None:
    """Give the connections back; one with an unread answer is closed, but for an undo's."""
    for ask in asks:
        port.nodes[ask.node].close(ask)


def told(error: Exception) -> Exception:
    """Return the error as a user may see it."""
    if not isinstance(error, Broken):
        return error
    made = OutcomeUnknown(str(error)) if error.sent else ServerUnreachable(str(error))
    made.__cause__ = error.__cause__
    return made


def not_reached(port: QuorumPort, what: str, failures: dict[int, Exception]) -> FencelockError:
    """Return the error for a majority that did not come about, with one cause per node."""
    for error in failures.values():
        if isinstance(error, ClientClosed):
            return error
    causes = {port.labels[node]: told(error) for node, error in sorted(failures.items())}
    told_apart = ((label, str(error)) for label, error in causes.items())
    words = "; ".join(text if label in text else f"{label}: {text}" for label, text in told_apart)
    return QuorumNotReached(f"{what}: no majority of {len(port.nodes)} nodes: {words}", causes)


async def settle(port: QuorumPort, asks: Sequence[Ask]) -> None:
    """Have requests carried out, in the background where a node does not answer soon."""
    if not asks:
        return
    try:
        await fan(port, asks, lambda _: True, len(asks), port.now() + port.node_timeout)
    except BaseException:
        for ask in asks:
            port.nodes[ask.node].post(*ask.request, ask.trail or ask.seat)
        raise
    else:
        post_unanswered(port, asks)
    finally:
        put_back(port, asks)


def post_unanswered(port: QuorumPort, asks: Sequence[Ask]) -> None:
    """Repeat in the background what got no answer."""
    for ask in asks:
        if ask.error is not None and isinstance(ask.error, (Broken, ServerUnreachable)):
            port.nodes[ask.node].post(*ask.request, ask.trail or ask.seat)
