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

from collections.abc import Callable, Container, Iterable, Sequence
from math import inf

from fencelock._core.lock.attempt import Attempt
from fencelock._core.quorum.membership import SUSPECT_SECONDS, decided
from fencelock._core.seat import Question
from fencelock._core.types import Call, Carrier, NoReply, Reply, closed
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import ClientClosed, FencelockError, ServerUnreachable

if TYPE_CHECKING:
    from fencelock._core.quorum.engine import QuorumEngine

Good = Callable[["Ballot"], bool]
Packed = Sequence[bytes]  # the one request of a ballot, in wire form


class Ballot(Question):
    """One question at one node, and its outcome.

    ``about`` is what was asked for, or granted, there; None of a question that only reads.
    ``wanted`` says which answer is good; None: any. ``ends`` is that of its round.
    """

    good = False  # the answer is a wanted one
    undone = False
    followed = False  # an undo or a repetition was sent behind it, on its connection

    node: int
    about: Attempt

    def __init__(
        self,
        node: int,
        about: Attempt | None,
        requests: Packed,
        wanted: Good | None,
        ends: list[bool],
    ) -> None:
        self.about = about  # type: ignore[assignment]  # who only reads does not look at it
        self.node, self.requests, self.wanted, self.ends = node, requests, wanted, ends

    def answer(self, reply: Reply, now: float) -> None:
        """Take the answer."""
        self.reply, self.answered_at, self.ended = reply, now, True
        self.good = good = self.wanted is None or self.wanted(self)
        self.ends.append(good)

    def fail(self, error: NoReply | FencelockError) -> None:
        """Take the error instead of an answer."""
        super().fail(error)
        self.ends.append(False)

    def follow(self) -> Carrier | None:
        """Return the connection on which to send what must run after it; once, None later."""
        path = None if self.followed else self.path
        self.followed = True
        return path

    @property
    def silent(self) -> bool:
        """Return True if the request may have run, and no answer came."""
        unanswered = self.error is None or isinstance(self.error, (NoReply, ClientClosed))
        return self.began and self.answered_at == 0 and unanswered


class Ballots(list[Ballot]):
    """Questions that go out together to nodes of a quorum.

    ``ends`` has for each question that has ended whether its answer is good: what a round counts,
    whenever one more has ended.
    """

    def __init__(self, port: QuorumEngine) -> None:
        self.port: QuorumEngine = port
        self.ends: list[bool] = []

    def put(
        self,
        nodes: Iterable[int],
        about: Attempt | None,
        requests: Packed,
        wanted: Good | None = None,
    ) -> None:
        """Add the same question at several nodes."""
        ends = self.ends
        for node in nodes:
            self.append(Ballot(node, about, requests, wanted, ends))

    @property
    def good(self) -> list[Ballot]:
        """Return those with a wanted answer."""
        return [ask for ask in self if ask.good]

    @property
    def failures(self) -> dict[int, Exception]:
        """Return the errors of the nodes that failed."""
        return {ask.node: ask.error for ask in self if ask.error is not None}

    async def broadcast(
        self, needed: int, latest: float | None = None, *, patient: bool = False
    ) -> int:
        """Ask all at once and return how many have a wanted answer: ``needed`` of these decide.

        Waits until ``latest`` at most; with ``patient`` until then if necessary, because nothing is
        held meanwhile. The caller puts the asks back after it has undone them.
        """
        port, ends = self.port, self.ends
        last = port.now() + port.undecided_timeout
        if latest is not None:
            last = latest if patient else min(last, latest)
        until = inf  # the answers decide: the others are awaited for ``node_timeout`` from then on

        def limit() -> float:
            nonlocal until
            if until == inf:
                if not decided(ends.count(True), len(self) - len(ends), needed):
                    return last
                until = min(last, port.now() + port.node_timeout)
            return until

        await self._exchange(self, last, limit)
        if ends.count(True) < len(self):  # ask again, on other connections, where one broke
            errors = [(ask, ask.error) for ask in self if isinstance(ask.error, NoReply)]
            broken = [ask for ask, error in errors if error.sent and error.undo_connection is None]
            if broken and port.now() < limit():
                port.put_back(broken)
                for ask in broken:
                    ask.error, ask.ended = None, False
                    ends.remove(False)
                await self._exchange(broken, last, limit)
        good = ends.count(True)
        if good < len(self) or port.suspect:
            self._note_ill()
        return good

    async def _exchange(
        self, asks: Sequence[Ballot], latest: float, limit: Callable[[], float]
    ) -> None:
        """Ask all at once; nothing once the client is closed."""
        if not self.port.closing:
            await self.port.exchange(asks, latest, limit)
            return
        for ask in asks:
            ask.fail(closed())

    def _note_ill(self) -> None:
        """Avoid the nodes that failed for a while; those that answered are healthy."""
        for ask in self:
            if isinstance(ask.error, (NoReply, ServerUnreachable)):
                self.port.suspect[ask.node] = self.port.now() + SUSPECT_SECONDS
            else:
                self.port.suspect.pop(ask.node, None)

    async def ask(self, needed: int, latest: float | None = None, *, patient: bool = False) -> int:
        """Do as ``broadcast``, where nothing has to be undone: put the asks back."""
        try:
            return await self.broadcast(needed, latest, patient=patient)
        finally:
            self.port.put_back(self)

    def undo(self, *, all_of_them: bool = False, but: Container[int] = ()) -> None:
        """Release in the background on nodes that did not answer, or on all of them but some."""
        for ask in self:
            if ask.node in but or ask.undone or not (ask.silent or (all_of_them and ask.began)):
                continue
            node, about = self.port.nodes[ask.node], ask.about
            with node.mutex:
                node.lines.give_up(about)
            node.run_in_background(*about.terms.abandon(about), ask.follow())
            ask.undone = True

    async def first_node_last(
        self, needed: int, repeated: Callable[[Attempt], Call], span: float = inf
    ) -> int:
        """Release all at once, the last one last: its next waiter then finds the others free.

        One that is slower refuses that waiter, which asks it again. A node that does not answer,
        soon or within a ``span``, is asked again in the background. Returns how many confirmed it.
        """
        port = self.port
        try:
            good = await self.broadcast(needed, port.now() + span)
            if good < len(self):
                self.retry_in_background(repeated)
        finally:
            port.put_back(self)
        return good

    def retry_in_background(self, repeated: Callable[[Attempt], Call]) -> None:
        """Repeat in the background what has no answer, behind the request where that is known."""
        for ask in self:
            if isinstance(ask.error, (NoReply, ServerUnreachable, ClientClosed)):
                node = self.port.nodes[ask.node]
                node.run_in_background(*repeated(ask.about), ask.follow())


def granted(ask: Ballot) -> bool:
    """Return True if the answer of a further node is a grant."""
    return isinstance(ask.reply, bytes)
