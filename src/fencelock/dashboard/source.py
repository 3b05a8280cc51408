"""What the dashboard asks of the server: two commands a look, and sometimes one or two more."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._core.look.overview import Overview
from fencelock._core.look.show import NAMES_MAX as SHOWN_AT_ONCE
from fencelock._io.threads import run_blocking

if TYPE_CHECKING:
    from fencelock.blocking.client import Client
    from fencelock.status import HistoryEntry, LockStatus

# Of each lock in the look at all of them. The page of one lock asks for more of a longer line.
WAITERS_OF_EACH: Final = 100
WAITERS_OF_ONE: Final = 500
HISTORY_SECONDS: Final = 5.0  # between two readings of the history
_EVENTS_AT_FIRST: Final = 1_000
# Clients write the history in the background, so an entry may come later than others after it.
_LATE_SECONDS: Final = 10.0


class ServerSource:
    """The locks of a client's server. Raises what the client raises."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._port, prefix = client.__shared__()
        self.prefix: str = prefix
        self.server: str = self._port.label
        self.commands: int = 0
        self._overview = Overview(self.prefix, waiters=WAITERS_OF_EACH)
        self._read_at: float | None = None

    def locks(self) -> Sequence[LockStatus]:
        """Return all locks that are held, kept or waited for."""
        found = run_blocking(self._overview.refresh(self._port))
        self.commands = 1 + -(-len(found) // SHOWN_AT_ONCE)
        return found

    def status(self, name: str) -> LockStatus:
        """Return one lock, whatever its state."""
        return self._client.status(name, waiters=WAITERS_OF_ONE)

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
        found = self._client.history(within=within, limit=_EVENTS_AT_FIRST)
        self._read_at = now
        self.commands += 1
        return found

    def revoke(
        self, name: str, reason: str, only: tuple[str, int] | None, by: str
    ) -> LockStatus | None:
        """Take a lock away; return what was held before, or None."""
        return self._client.revoke(name, reason=reason, only=only, by=by)
