"""One look at the server a second, shared by all browsers; none while no browser asks.

After a failed look the page keeps the last board, and says how old it is. So it is useful also
while the server is unreachable.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from starlette.concurrency import run_in_threadpool

from fencelock.dashboard import rows
from fencelock.dashboard.board import Board, Look, View
from fencelock.dashboard.recent import Recent
from fencelock.errors import FencelockError

if TYPE_CHECKING:
    from fencelock.status import HistoryEntry, LockStatus

EVERY_SECONDS: Final = 1.0
AGE_MAX: Final = 3  # times the pause: so old a board may be while the next look is under way
COMMANDS_A_SECOND: Final = 2  # at most, on the average of a look
EVENTS_KEPT: Final = 5_000


class Source(Protocol):
    """What the dashboard asks of the server, from a thread, one call at a time."""

    server: str
    prefix: str
    commands: int  # that the last look took

    def locks(self) -> Sequence[LockStatus]:
        """Return all locks that are held, kept or waited for."""

    def status(self, name: str) -> LockStatus:
        """Return one lock, whatever its state."""

    def key(self, name: str) -> str:
        """Return the key of a lock; ValueError for a name that cannot be one."""

    def events(self) -> Sequence[HistoryEntry]:
        """Return the newest entries of the history, oldest first; some may come again."""

    def revoke(
        self, name: str, reason: str, only: tuple[str, int] | None, by: str
    ) -> LockStatus | None:
        """Take a lock away; return what was held before, or None."""


class Feed:
    """The boards, one after the other."""

    def __init__(self, source: Source, frame: dict[str, Any]) -> None:
        self._source = source
        self._frame = {**frame, "server": source.server, "prefix": source.prefix}
        self._turn = asyncio.Lock()
        self._recent = Recent()
        self._events: deque[HistoryEntry] = deque(maxlen=EVENTS_KEPT)
        self._board: Board | None = None
        self._task: asyncio.Task[None] | None = None
        self._next = 0.0  # when the next look is due
        self._too_old = 0.0  # from then on this board is shown only after a failed look
        self._skew = 0.0  # of the server's clock against ours

    @property
    def now(self) -> float:
        """Return the server's time, estimated from the last look."""
        return time.time() + self._skew

    async def board(self) -> Board:
        """Return the newest board; while a look is under way, the previous one."""
        now = time.monotonic()
        if self._board is None or now >= self._too_old:
            await self._renewed()
        elif now >= self._next and (self._task is None or self._task.done()):
            if self._task is not None:
                self._task.result()  # its error was reported to no browser yet
            self._task = asyncio.create_task(self._renewed())
        assert self._board is not None  # noqa: S101 - there is one after the first look
        return self._board

    async def _renewed(self) -> None:
        """Take the next look, unless another browser's request just did."""
        async with self._turn:
            if time.monotonic() < self._next:
                return
            begun = time.monotonic()
            self._board = await run_in_threadpool(self._look)
            took = time.monotonic() - begun
            # A slow server is not asked all the time, and many locks take several commands.
            pause = max(EVERY_SECONDS, 2 * took, self._source.commands / COMMANDS_A_SECOND)
            self._next = begun + pause
            self._too_old = begun + AGE_MAX * pause

    def stale(self) -> None:
        """Let the next browser that asks cause a new look, so that it sees a change at once."""
        self._next = self._too_old = 0.0

    def _look(self) -> Board:
        begun = time.monotonic()
        try:
            locks = self._source.locks()
        except FencelockError as error:
            return self._without_answer(_first_line(error), begun)
        trouble = self._read_events()
        told = rows.instant(locks, 0.0)
        if told:
            self._skew = told - time.time()
        now = self.now
        self._recent.look(locks, now)
        took = time.monotonic() - begun
        costs = self._recent.costs(now)
        look = Look(locks, list(self._events), now, took, trouble, costs, begun)
        board = Board(look, self._frame)
        if self._board is not None:
            board.make_as(self._board)
        return board

    def _read_events(self) -> str:
        """Read what is new in the history; return why it cannot be read, or an empty text."""
        try:
            found = self._source.events()
        except FencelockError as error:
            return f"The history cannot be read: {_first_line(error)}"
        known = {each.id for each in self._events}
        self._events.extend(each for each in found if each.id not in known)
        return ""

    def _without_answer(self, why: str, begun: float) -> Board:
        """Return the last board once more, or an empty one, with the reason."""
        if self._board is None:
            return Board(Look((), (), self.now, trouble=why, begun=begun), self._frame)
        return Board(self._board.look._replace(trouble=why), self._frame)

    async def lock(self, name: str) -> View:
        """Return the view of one lock; ValueError for a name that cannot be one."""
        board = await self.board()
        key = self._source.key(name)
        found = board.by_name.get(name)
        if (found is None or found.waiting > len(found.waiters)) and not board.trouble:
            return await self._looked_up(board, name, key)
        return self._one(board, name, key, found)

    async def _looked_up(self, board: Board, name: str, key: str) -> View:
        """Look up a lock that is not, or not completely, on the board; once for all browsers."""
        async with self._turn:
            if not board.has(f"lock {name}"):
                found = await run_in_threadpool(self._source.status, name)
                return self._one(board, name, key, found)
        return self._one(board, name, key, None)

    def _one(self, board: Board, name: str, key: str, found: LockStatus | None) -> View:
        def make() -> dict[str, Any]:
            status = found or _unknown(name)
            return {"key": key} | board.one_lock(status, self._recent.of(name, board.now))

        return board.view(f"lock {name}", make)

    async def revoke(
        self, name: str, reason: str, only: tuple[str, int] | None, fence: int, by: str
    ) -> LockStatus | None:
        """Take a lock away if it is still the tenure that was shown; return it, or None."""
        async with self._turn:
            lost: LockStatus | None = await run_in_threadpool(
                self._revoke, name, reason, only, fence, by
            )
            return lost

    def _revoke(
        self, name: str, reason: str, only: tuple[str, int] | None, fence: int, by: str
    ) -> LockStatus | None:
        before = self._source.status(name)
        fences = {each.fence for each in before.holders}
        if not before.held or fence not in {before.fence, *fences}:
            return None
        lost = self._source.revoke(name, reason, only, by)
        self.stale()
        return lost


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _unknown(name: str) -> LockStatus:
    from fencelock.status import LockStatus  # noqa: PLC0415 - only while the server is away

    return LockStatus(name)
