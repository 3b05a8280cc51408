"""Ask until an answer comes or the time is up.

Rules of this file:

- Only idempotent requests come through here: each may run twice (I4).
- One deadline covers connecting, asking, pausing and retrying (I13).
- A server's refusal is an answer and is raised as it is; only "not now" replies are retried.
- A replica's refusal is none where a master answered before: the address may lead to another server
  by now. So the request is repeated on a new connection at once, then about once a second. Where no
  master ever answered, one new connection is tried.
- One that waits in line may find its password refused while that is being changed: "not now", too.
- What only reads has no effect, so its outcome is never unknown: it raises ServerUnreachable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from fencelock._core.deadlines import retry_delay
from fencelock._core.seat import Seat
from fencelock._core.types import DEMOTED, Demoted, NoReply, Reply
from fencelock._runtime.log import log
from fencelock._runtime.typed import Any, Generic, NoReturn, TypeVar
from fencelock.errors import FencelockError, OutcomeUnknown, ServerError, ServerUnreachable
from fencelock.scripts import Script

# Error codes that say "not now": the same request may succeed a moment later.
PASSING = frozenset({"BUSY", "LOADING", "TRYAGAIN", "MASTERDOWN", "CLUSTERDOWN", "MAXCLIENTS"})

# Error codes that say so to one that waits in line: it was let in with this password before.
CHANGING = frozenset({"NOAUTH", "WRONGPASS"})
RECONNECTING = DEMOTED | CHANGING
# How often a new connection is tried while an address leads to a replica, or a password is refused.
RECONNECT_SECONDS = 1.0


def passes(error: BaseException) -> bool:
    """Return True if an error says "not now": the same request may succeed a moment later."""
    return getattr(error, "code", "") in PASSING


def pause_after(trouble: NoReply | ServerError, asked: Seat, jitter: float) -> float:
    """Note that an attempt got no answer; return how long to wait, or raise what is one."""
    before, refusal = asked.refusal, trouble if isinstance(trouble, ServerError) else None
    passing = refusal is None or _may_pass(refusal, asked)
    if isinstance(trouble, NoReply):
        asked.note(trouble)
    if isinstance(trouble, Demoted):
        # else each of the two would keep the other
        refusal, trouble.refusal = trouble.refusal, None
        passing = trouble.mastered or before is None or before.code not in DEMOTED
    if refusal is not None and not (passing or passes(refusal)):
        try:
            raise refusal
        finally:
            del trouble, refusal
    asked.refusal = refusal or before
    pause = _pause(asked, refusal, before, jitter)
    asked.tries += 1
    return pause


def _may_pass(refusal: ServerError, asked: Seat) -> bool:
    """Return True if what was refused may succeed a moment later."""
    return passes(refusal) or (asked.stood and refusal.code in CHANGING)


def _pause(
    asked: Seat, refusal: ServerError | None, before: ServerError | None, jitter: float
) -> float:
    """Return how long to wait before the next attempt."""
    if refusal is None or refusal.code not in RECONNECTING:
        return retry_delay(asked.tries, jitter)
    if before is None or before.code not in RECONNECTING:
        return 0.0
    return RECONNECT_SECONDS * (0.75 + jitter / 4)


def give_up(trouble: Exception, asked: Seat) -> NoReturn:
    """Raise OutcomeUnknown if a request may have run, and ServerUnreachable if not."""
    if isinstance(trouble, ServerError):
        try:
            raise trouble
        finally:
            del trouble
    cause = trouble.__cause__  # a NoReply says no more than this message
    if asked.sent:
        raise OutcomeUnknown(f"{trouble}: the request may or may not have run") from cause
    raise ServerUnreachable(str(trouble)) from cause


def log_undelivered(script: Script, error: FencelockError, *, loud: bool) -> None:
    """Log that a posted request was refused, or never answered: what it is about ends by itself."""
    unanswered = isinstance(error, OutcomeUnknown | ServerUnreachable)
    how = "could not reach the server in time" if unanswered else "was refused by the server"
    tell = log.warning if loud else log.debug
    tell("a request in the background (%s) %s: %s", script.name, how, error)


Part = TypeVar("Part")
# Asks for these parts, and returns the answer or the error of each.
Send = Callable[[Sequence[Part]], Awaitable[Sequence[Any]]]


class Pipeline(Generic[Part]):
    """Requests that go out at once, such as those for the parts of a joint lease.

    Each answer counts by itself: a silent node holds up only its own parts.
    """

    def __init__(self) -> None:
        self.answers: dict[Part, Reply] = {}
        self.refused: dict[Part, ServerError] = {}
        self.unsure: set[Part] = set()  # an earlier request had no answer and may have run

    def left(self, parts: Iterable[Part]) -> list[Part]:
        """Return the parts that have no answer yet."""
        return [each for each in parts if each not in self.answers and each not in self.refused]

    async def ask(self, parts: Iterable[Part], send: Send[Part]) -> None:
        """Ask once for each that is left; raise the first error of one without an answer."""
        left = self.left(parts)
        trouble: NoReply | ServerError | None = None
        answers = await send(left)
        for part, answer in zip(left, answers, strict=True):
            if isinstance(answer, NoReply):
                if answer.sent:
                    self.unsure.add(part)
                trouble = trouble or answer
            elif isinstance(answer, ServerError):
                if passes(answer):
                    trouble = trouble or answer
                else:
                    self.refused[part] = answer
            elif isinstance(answer, Exception):  # the client is closed, or this is a bug
                try:
                    raise answer
                finally:
                    del answer, answers
            else:
                self.answers[part] = answer
        await self.took(left)
        if trouble is not None:
            try:
                raise trouble
            finally:
                del answer, answers, trouble

    async def took(self, parts: Sequence[Part]) -> None:
        """Take note of what came of these, before an error of theirs is raised."""

    def check(self) -> None:
        """Raise the first refusal."""
        if self.refused:
            raise next(iter(self.refused.values()))
