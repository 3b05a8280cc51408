"""Looking at locks of all clients, and revoking them: the arguments, once for both clients.

Each function checks what was given, and returns a flow: a bad argument is refused before anything
is sent. What the flows need is imported when it is first used: few programs look.
"""
# ruff: noqa: PLC0415 - as said above

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from fencelock import options
from fencelock._core.keys import LockKeys, SignalKeys
from fencelock._runtime.process import user_and_host
from fencelock.options import Seconds

if TYPE_CHECKING:
    from fencelock.status import HistoryEntry, LockStatus, SignalStatus


def locks(
    port: Any, prefix: str, match: str, names: Iterable[str] | None, *, waiters: int, recent: bool
) -> Coroutine[Any, Any, list[LockStatus]]:
    """Return the flow that shows the locks of these names, or those that match."""
    from fencelock._core.look.show import find, show_all

    listed = options.count("waiters", waiters, least=0)
    chosen = _chosen(match, names)
    if chosen is None:
        return find(port, prefix, options.text("match", match), listed, recent=bool(recent))
    return show_all(port, [LockKeys(prefix, name) for name in chosen], listed)


def status(port: Any, prefix: str, name: str, waiters: int) -> Coroutine[Any, Any, LockStatus]:
    """Return the flow that shows one lock."""
    from fencelock._core.look.show import show

    keys = LockKeys(prefix, options.lock_name(name))
    return show(port, keys, options.count("waiters", waiters, least=0))


def revoke(
    port: Any, prefix: str, name: str, reason: str, *, only: tuple[str, int] | None, by: str | None
) -> Coroutine[Any, Any, LockStatus | None]:
    """Return the flow that revokes a lock."""
    from fencelock._core.look.show import revoke

    if by is None:
        by = user_and_host()
    keys = LockKeys(prefix, options.lock_name(name))
    why = options.text("reason", reason).strip()
    if not why:
        raise ValueError("reason must not be empty: it is what the holder will read")
    return revoke(port, keys, why, _process(only), options.text("by", by))


def signals(
    port: Any, prefix: str, match: str, names: Iterable[str] | None, *, quorum: bool
) -> Coroutine[Any, Any, list[SignalStatus]]:
    """Return the flow that shows the events, latches and barriers of these names, or matching."""
    from fencelock._core.look.states import find_states, show_states

    chosen = _chosen(match, names)
    if quorum:  # has none
        return show_states(port, [])
    if chosen is None:
        return find_states(port, prefix, options.text("match", match))
    return show_states(port, [SignalKeys(prefix, name) for name in chosen])


def history(
    port: Any, prefix: str, name: str | None, within: Seconds | None, limit: int
) -> Coroutine[Any, Any, list[HistoryEntry]]:
    """Return the flow that reads the history."""
    from fencelock._core.look.history import read

    chosen = None if name is None else options.lock_name(name)
    seconds = None if within is None else options.positive("within", within)
    return read(port, prefix, chosen, seconds, options.count("limit", limit))


def _chosen(match: str, names: Iterable[str] | None) -> list[str] | None:
    """Return the names that were given, each checked; None: those that match."""
    if names is None:
        return None
    if match != "*":
        raise ValueError("give match or names, not both")
    if isinstance(names, (str, bytes)):
        raise TypeError(f"names must be several names, such as [{names!r}], not {names!r}")
    return [options.lock_name(name) for name in names]


def _process(only: Any) -> tuple[str, int] | None:
    """Return the host and process id from which alone a lock is revoked."""
    if only is None:
        return None
    try:
        host, pid = only
    except (TypeError, ValueError):
        host = pid = None
    if not isinstance(host, str) or not isinstance(pid, int) or isinstance(pid, bool):
        raise TypeError(f"only must be (host, pid), such as status.holder.process, not {only!r}")
    return host, pid
