"""What ``top`` shows, asked of the server. Each method blocks: the app calls it in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from fencelock.cli.session import Session
    from fencelock.status import HistoryEntry, LockStatus

_WAITERS: Final = 1000
_ENTRIES: Final = 100


class Detail(NamedTuple):
    """One lock with its line and its history, the newest entry first."""

    lock: LockStatus
    history: list[HistoryEntry]
    no_history: str  # why there is none: the error


class Watched:
    """The locks of a session that match."""

    def __init__(self, session: Session, match: str) -> None:
        self._session = session
        self._overview = session.operator.overview(match)

    @property
    def server(self) -> str:
        """Return the server, as a person calls it."""
        return self._session.operator.server

    def locks(self) -> list[LockStatus]:
        """Return the locks in use."""
        return self._session.operator.refresh(self._overview)

    def detail(self, name: str) -> Detail:
        """Return one lock."""
        from fencelock.errors import ServerError

        client = self._session.client
        lock = client.status(name, waiters=_WAITERS)
        try:
            kept = client.history(name, limit=_ENTRIES)
        except ServerError as error:  # without the permission the lock can still be shown
            return Detail(lock, [], str(error))
        return Detail(lock, kept[::-1], "")

    def revoke(self, name: str, reason: str) -> LockStatus | None:
        """Take the lock from its holders; return its status before, or None."""
        return self._session.client.revoke(name, reason=reason)
