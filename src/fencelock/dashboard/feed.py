"""One look at the server a second, shared by all browsers; none while no browser asks.

After a failed look the page keeps the last board, and says how old it is. So it is useful also
while the server is unreachable.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._core.look.overview import Overview
from fencelock._core.look.show import NAMES_MAX as SHOWN_AT_ONCE
from fencelock._core.look.show import Looker
from fencelock._io.threads import run_blocking
from fencelock.dashboard import rows
from fencelock.dashboard.board import Board, Look, View
from fencelock.dashboard.recent import Recent
from fencelock.errors import FencelockError
from fencelock.status import HistoryEntry, LockStatus, SignalStatus

if TYPE_CHECKING:
    from fencelock.blocking.client import Client

EVERY_SECONDS: Final = 1.0
AGE_MAX: Final = 3  # times the pause: so old a board may be while the next look is under way
COMMANDS_A_SECOND: Final = 2  # at most, on the average of a look
EVENTS_KEPT: Final = 5_000
# Of each lock in the look at all of them. The page of one lock asks for more of a longer line.
WAITERS_OF_EACH: Final = 100
WAITERS_OF_ONE: Final = 500
HISTORY_SECONDS: Final = 5.0  # between two readings of the history
_EVENTS_AT_FIRST: Final = 1_000
# A SCAN goes through all keys of a server: it may take this part of the time.
SCAN_SECONDS: Final = 5.0
SCAN_SHARE: Final = 20
# Clients write the history in the background, so an entry may come later than others after it.
_LATE_SECONDS: Final = 10.0


class ServerSource:
    """What is asked of a client's server. Raises what the client raises.

    Two commands a look, sometimes one or two more, and a message to each client; see overview.py.
    """

    def __init__(self, client: Client) -> None:
        self.client: Client = client
        self._port, prefix = client.__shared__()
        self.prefix: str = prefix
        self.server: str = self._port.label
        self.commands: int = 0
        self._overview = Overview(waiters=WAITERS_OF_EACH)
        self._read_at: float | None = None

    def locks(self) -> Sequence[LockStatus]:
        """Return all locks that are held, kept or waited for."""
        found = run_blocking(self._overview.refresh(Looker(self._port, self.prefix)))
        self.commands = 1 + -(-len(found) // SHOWN_AT_ONCE)
        return found

    def status(self, name: str) -> LockStatus:
        """Return one lock, whatever its state."""
        return self.client.status(name, waiters=WAITERS_OF_ONE)

    def signals(self, name: str | None = None) -> Sequence[SignalStatus]:
        """Return all events, latches and barriers, which takes a SCAN, or the one of a name."""
        return self.client.signals(names=None if name is None else [name])

    def key(self, name: str) -> str:
        """Return the key of a lock; ValueError for a name that cannot be one."""
        return LockKeys(self.prefix, options.lock_name(name)).lock.decode()

    def events(self) -> Sequence[HistoryEntry]:
        """Return the newest entries of the history, oldest first; some may come again.

        The history is read every few seconds; between two readings this returns nothing.
        """
        now, before = time.monotonic(), self._read_at
        if before is not None and now - before < HISTORY_SECONDS:
            return ()
        within = None if before is None else now - before + _LATE_SECONDS
        found = self.client.history(within=within, limit=_EVENTS_AT_FIRST)
        self._read_at = now
        self.commands += 1
        return found


class Feed:
    """The boards, one after the other."""

    def __init__(self, source: ServerSource, frame: dict[str, Any]) -> None:
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
        self._scanning = asyncio.Lock()
        self._signals: list[dict[str, Any]] = []
        self._scan_due = 0.0

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

    def _look(self) -> Board:
        begun = time.monotonic()
        try:
            locks = self._source.locks()
        except FencelockError as error:
            return self._without_answer(_first_line(error), begun)
        trouble = self._read_events()
        instant = rows.instant(locks, 0.0)
        if instant:
            self._skew = instant - time.time()
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
        found, signal = board.by_name.get(name), None
        if not board.trouble:
            async with self._turn:
                if not board.has(f"lock {name}"):  # no other browser has looked it up
                    found, signal = await run_in_threadpool(self._look_at, name)

        def make() -> dict[str, Any]:
            view = board.one_lock(found or LockStatus(name), self._recent.of(name, board.now))
            row = None if signal is None else rows.signal(signal, board.now)
            return {"key": key, "signal": row} | view

        return board.view(f"lock {name}", make)

    def _look_at(self, name: str) -> tuple[LockStatus, SignalStatus | None]:
        """Return a lock with its whole line, or what else has its name."""
        found = self._source.status(name)
        if found.held or found.kept or found.waiting:
            return found, None
        return found, next(iter(self._source.signals(name)), None)

    async def signals(self) -> View:
        """Return the view of all events, latches and barriers, as the last SCAN found them."""
        board = await self.board()
        async with self._scanning:
            begun = time.monotonic()
            if begun >= self._scan_due and not board.trouble:
                found = await run_in_threadpool(self._source.signals)
                self._signals = [rows.signal(each, board.now) for each in found]
                took = time.monotonic() - begun
                self._scan_due = begun + max(SCAN_SECONDS, SCAN_SHARE * took)
        return board.view("signals", lambda: {"signals": self._signals})

    async def revoke(
        self, name: str, reason: str, only: tuple[str, int] | None, fence: int, by: str
    ) -> LockStatus | None:
        """Take a lock away if it is still the tenure that was shown; return it, or None."""

        def take() -> LockStatus | None:
            before = self._source.status(name)
            fences = {before.fence, *(each.fence for each in before.holders)}
            if not before.held or fence not in fences:
                return None
            lost = self._source.client.revoke(name, reason=reason, only=only, by=by)
            self._next = self._too_old = 0.0  # the next browser that asks sees the change
            return lost

        async with self._turn:
            taken: LockStatus | None = await run_in_threadpool(take)
            return taken


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
