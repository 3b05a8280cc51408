"""A lock as a row of a table: what ``ls`` and ``top`` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fencelock.cli.output import human

if TYPE_CHECKING:
    from fencelock.status import LockStatus

# The columns that a narrow terminal does without, the first ones first.
LESS: Final = ("FENCE", "LABEL", "LEASE", "HELD FOR", "LONGEST WAIT")


def row(lock: LockStatus) -> dict[str, str]:
    """Return the cells of a lock, by column."""
    who = lock.holder
    holder = "(not fencelock)" if lock.held else "-"
    if who is not None:
        holder = f"{who.host}:{who.pid}" + (f" +{lock.holding - 1}" if lock.holding > 1 else "")
    return {
        "NAME": lock.name,
        "STATE": lock.doing,
        "HOLDER": holder,
        "LABEL": (who and who.called) or "-",
        "HELD FOR": human(who.held_for) if who else "-",
        "LEASE": lease(lock.remaining) if lock.held else "-",
        "FENCE": str(lock.fence) if lock.fence else "-",
        "WAITING": str(lock.waiting),
    }


def lease(remaining: float | None) -> str:
    """Return what is left of a lease; one that another program gave no end has none."""
    return "-" if remaining is None else human(remaining)
