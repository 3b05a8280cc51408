"""A lock as a row of a table: what ``ls`` and ``top`` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fencelock.cli.output import human

if TYPE_CHECKING:
    from fencelock.status import LockStatus

HEADER: Final = ("NAME", "STATE", "HOLDER", "LABEL", "HELD FOR", "LEASE", "FENCE", "WAITING")


def row(lock: LockStatus) -> tuple[str, ...]:
    """Return the cells of a lock, below ``HEADER``."""
    who = lock.holder
    return (
        lock.name,
        lock.doing,
        process(lock),
        (who and who.called) or "-",
        human(who.held_for) if who else "-",
        lease(lock.remaining) if lock.held else "-",
        str(lock.fence) if lock.fence else "-",
        str(lock.waiting),
    )


def process(lock: LockStatus) -> str:
    """Return which process holds it, and how many more there are."""
    who = lock.holder
    if who is None:
        return "(not fencelock)" if lock.held else "-"
    more = f" +{lock.holding - 1}" if lock.holding > 1 else ""
    return f"{who.host}:{who.pid}{more}"


def lease(remaining: float | None) -> str:
    """Return what is left of a lease; one that another program gave no end has none."""
    return "-" if remaining is None else human(remaining)
