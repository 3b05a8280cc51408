"""Ask several nodes of a quorum at once.

Rules of this file:

- Requests are sent to all before an answer is awaited.
- A request without an answer is undone on its own connection (I4, I9): ``undo``, then
  ``put_back``. It is undone once, and that connection serves one follower: two clean-ups would read
  one connection.
- A silent node costs ``node_timeout`` when the others have decided, and a bounded multiple of it
  when they have not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Protocol

from fencelock._core.lock.terms import Asked
from fencelock._core.port import Port
from fencelock._core.quorum.membership import Membership
from fencelock._core.quorum.votes import SUSPECT_SECONDS, UNDECIDED_FACTOR, decided
from fencelock._core.seat import Question
from fencelock._core.types import Call, NoReply, Reply, closed
from fencelock.errors import (
    ClientClosed,
    FencelockError,
    OutcomeUnknown,
    QuorumNotReached,
    ServerUnreachable,
)
from fencelock.scripts import bulk, head

Good = Callable[["Ballot"], bool]


class Ballot(Question):
    """One question at one node, and its outcome."""

    good = False  # the answer is a wanted one
    undone = False
    followed = False  # an undo or a repetition was sent behind it, on its connection

    about: Asked  # what was asked for, or granted, at this node; none of a question that only reads

    def __init__(
        self, node: int, about: Asked | None, call: Call | bytes, wanted: Good | None = None
    ) -> None:
        if about is not None:
            self.keys, self.id, self.about = about.terms.keys, about.id, about
        self.wanted = wanted  # says which answer is; None: any
        if not isinstance(call, bytes):  # what every acquisition asks for comes packed
            script, keys, args = call
            words = [each if isinstance(each, bytes) else b"%d" % each for each in args]
            call = head(script, keys, len(words)) + b"".join(map(bulk, words))
        self.node, self.requests = node, (call,)

    def answer(self, reply: Reply, now: float) -> None:
        """Take the answer."""
        self.reply, self.answered_at, self.ended = reply, now, True
        self.good = self.wanted is None or self.wanted(self)

    def follow(self) -> object:
        """Return the connection on which to send what must run after it; once, None later."""
        path = None if self.followed else self.undo_connection or self.connection
        self.followed = True
        return path

    @property
    def silent(self) -> bool:
        """Return True if the request may have run, and no answer came."""
        answered = isinstance(self.error, FencelockError) and not isinstance(
            self.error, ClientClosed
        )
        return self.began and self.answered_at == 0 and not answered


class QuorumPort(Port, Protocol):
    """The world as the flows of a quorum see it: several ports, and how to use them at once."""

    labels: Sequence[str]
    closing: bool  # no new request is accepted
    node_timeout: float
    membership: Membership
    membership_key: bytes
    suspect: dict[int, float]  # node -> the instant until which it is avoided

    @property
    def nodes(self) -> Sequence[Port]:
        """Return the ports of the nodes."""

    async def exchange(
        self, asks: Sequence[Ballot], latest: float, limit: Callable[[], float]
    ) -> None:
        """Ask all at once. Return when all answered, or at the instant that ``limit`` returns.

        That is ``latest`` until the answers decide, and earlier from then on. Every ask has then
        ended. A cancellation leaves some that have not.
        """

    def put_back(self, asks: Iterable[Ballot]) -> None:
        """Return the connections to the pools; close those with an unread answer.

        Except one that an undo still uses.
        """


async def broadcast(
    port: QuorumPort,
    asks: Sequence[Ballot],
    needed: int,
    latest: float | None = None,
    *,
    patient: bool = False,
) -> list[Ballot]:
    """Ask all at once and return those with a wanted answer, of which ``needed`` decide.

    Waits until ``latest`` at most; with ``patient`` until then if necessary, because nothing is
    held meanwhile. The caller puts the asks back after it has undone them.
    """
    last = port.now() + port.node_timeout * UNDECIDED_FACTOR
    if latest is not None:
        last = latest if patient else min(last, latest)
    until = inf  # the answers decide: the others are awaited for ``node_timeout`` from then on

    def limit() -> float:
        nonlocal until
        if until == inf:
            good = undecided = 0
            for ask in asks:
                good += ask.good
                undecided += not ask.ended
            if decided(good, undecided, needed):
                until = min(last, port.now() + port.node_timeout)
        return min(last, until)

    if port.closing:
        _refuse(asks)
    else:
        await port.exchange(asks, last, limit)
    good_ones = [ask for ask in asks if ask.good]
    if len(good_ones) < len(asks):
        await _once_more(port, asks, last, limit)
        good_ones = [ask for ask in asks if ask.good]
    if len(good_ones) < len(asks) or port.suspect:
        _note_ill(port, asks)
    return good_ones


def _refuse(asks: Iterable[Ballot]) -> None:
    """Ask nothing: the client is closed."""
    for ask in asks:
        ask.fail(closed())


async def _once_more(
    port: QuorumPort, asks: Sequence[Ballot], latest: float, limit: Callable[[], float]
) -> None:
    """Ask again, on other connections, where one broke and time is left."""
    errors = [(ask, ask.error) for ask in asks if isinstance(ask.error, NoReply)]
    broken = [ask for ask, error in errors if error.sent and error.undo_connection is None]
    if not broken or port.now() >= limit():
        return
    port.put_back(broken)
    for ask in broken:
        ask.error, ask.ended = None, False
    if port.closing:
        _refuse(broken)
    else:
        await port.exchange(broken, latest, limit)


async def ask_nodes(
    port: QuorumPort,
    asks: Sequence[Ballot],
    needed: int,
    latest: float | None = None,
    *,
    patient: bool = False,
) -> list[Ballot]:
    """Do as ``broadcast``, where nothing has to be undone: put the asks back."""
    try:
        return await broadcast(port, asks, needed, latest, patient=patient)
    finally:
        port.put_back(asks)


def healthy(port: QuorumPort, now: float) -> Sequence[int]:
    """Return the nodes to ask: not those that failed recently, unless too few would be left."""
    nodes = range(len(port.nodes))
    well = [node for node in nodes if port.suspect.get(node, 0.0) <= now]
    return well if len(well) >= port.needed else nodes


def failures_of(asks: Iterable[Ballot]) -> dict[int, Exception]:
    """Return the errors of the nodes that failed."""
    return {ask.node: ask.error for ask in asks if ask.error is not None}


def granted(ask: Ballot) -> bool:
    """Return True if the answer of a further node is a grant."""
    return isinstance(ask.reply, bytes)


def _note_ill(port: QuorumPort, asks: Sequence[Ballot]) -> None:
    """Avoid the nodes that failed for a while; those that answered are healthy."""
    for ask in asks:
        if isinstance(ask.error, (NoReply, ServerUnreachable)):
            port.suspect[ask.node] = port.now() + SUSPECT_SECONDS
        else:
            port.suspect.pop(ask.node, None)


def undo(port: QuorumPort, asks: Iterable[Ballot], *, all_of_them: bool = False) -> None:
    """Release in the background on nodes that did not answer, or on all of them."""
    for ask in asks:
        if not ask.undone and (ask.silent or (all_of_them and ask.began)):
            node, about = port.nodes[ask.node], ask.about
            with node.mutex:
                node.lines.give_up(about)
            node.run_in_background(*about.terms.abandon(about), ask.follow())
            ask.undone = True


def described(error: Exception) -> Exception:
    """Return the error as a user may see it."""
    if not isinstance(error, NoReply):
        return error
    made = OutcomeUnknown(str(error)) if error.sent else ServerUnreachable(str(error))
    made.__cause__ = error.__cause__
    return made


def not_reached(port: QuorumPort, what: str, failures: dict[int, Exception]) -> FencelockError:
    """Return the error for a missing majority, with one cause per node."""
    for error in failures.values():
        if isinstance(error, ClientClosed):
            return error
    causes = {port.labels[node]: described(error) for node, error in sorted(failures.items())}
    told_apart = ((label, str(error)) for label, error in causes.items())
    words = "; ".join(text if label in text else f"{label}: {text}" for label, text in told_apart)
    return QuorumNotReached(f"{what}: no majority of {len(port.nodes)} nodes: {words}", causes)


def retry_in_background(
    port: QuorumPort, asks: Sequence[Ballot], repeated: Callable[[Asked], Call]
) -> None:
    """Repeat in the background what has no answer, behind the request where that is known."""
    for ask in asks:
        if isinstance(ask.error, (NoReply, ServerUnreachable, ClientClosed)):
            port.nodes[ask.node].run_in_background(*repeated(ask.about), ask.follow())
