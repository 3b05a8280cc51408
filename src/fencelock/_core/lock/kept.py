"""Leases that stay with their client for a moment after a release (``linger``).

Rules of this file (DESIGN §9; I1, I7):

- A lease is kept only by the release of a turn for which no waiter of this client waits, and only
  while this client hears recalls. Little of it is left on the server: a client that dies or freezes
  stops the others for ``HANDOFF_TTL_SECONDS`` at most.
- The next turn begins without a command, and only while the lease proves enough.
- A recall is answered by a release if the lease is idle. If it is in use, this turn is the last.
- After ``RECALLS_IN_VAIN`` recalls without a turn of this client in between, a lock is not kept for
  ``PAUSE_SECONDS``: others want it more often than this client does.
- A recall may come before the grant that it is about: it is remembered.
- A message is a hint: if it is lost, an idle lease ends after ``linger`` all the same.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

from fencelock._core import events
from fencelock._core.lock.terms import TRIES
from fencelock.scripts import ANSWER

# A ``Port``, whose module imports this one.
AnyPort: TypeAlias = Any

# After so many recalls without use in between, a lock is not kept for so long. NFS servers wait 30
# to 60 s after the recall of a delegation.
RECALLS_IN_VAIN = 2
PAUSE_SECONDS = 30.0
# How many recalls, and how many locks that were recalled, are remembered.
REMEMBERED_MAX = 1000


class Recalls:
    """The recalls of one client, and the tenures of its lingering handles; use under the mutex."""

    __slots__ = ("_early", "_vain", "tenures")

    def __init__(self) -> None:
        self.tenures: dict[bytes, Any] = {}  # the cohort of each holder id
        self._early: dict[bytes, None] = {}  # ids that were recalled before their grant was known
        self._vain: dict[Hashable, tuple[int, float]] = {}  # recalls of a cohort; not kept until

    def begin(self, holder: bytes, line: Any) -> bool:
        """Note a new tenure; return True if it was recalled before."""
        self.tenures[holder] = line
        return self._early.pop(holder, self) is None

    def end(self, holder: bytes) -> None:
        """Forget a tenure that has ended."""
        self.tenures.pop(holder, None)

    def early(self, holder: bytes) -> None:
        """Remember a recall that no tenure is known for."""
        self._early[holder] = None
        _shorten(self._early)

    def used(self, key: Hashable) -> None:
        """Note that a kept lease was taken again."""
        if self._vain:
            self._vain.pop(key, None)

    def recalled(self, key: Hashable, now: float) -> None:
        """Count a recall of a cohort's tenure."""
        count = self._vain.get(key, (0, 0.0))[0] + 1
        until = now + PAUSE_SECONDS if count >= RECALLS_IN_VAIN else 0.0
        self._vain.pop(key, None)  # the latest is the last to be forgotten
        self._vain[key] = count, until
        _shorten(self._vain)

    def paused(self, key: Hashable, now: float) -> bool:
        """Return True if a cohort's lock is not kept now; after the pause, count afresh."""
        until = self._vain.get(key, (0, 0.0))[1] if self._vain else 0.0
        if until and now >= until:
            del self._vain[key]
        return now < until


def _shorten(table: dict[Any, Any]) -> None:
    if len(table) > REMEMBERED_MAX:
        del table[next(iter(table))]


def recall(port: AnyPort, holder: bytes, channel: bytes, who: bytes) -> None:
    """Take a recall: release an idle lease at once, and answer a try if the lease is in use."""
    lines = port.lines
    with port.mutex:
        line = lines.recalls.tenures.get(holder)
        if line is None:
            lines.recalls.early(holder)
            return
        kept = line.recall(port.now())
        about = line.front if kept is None else kept.source
    if events.hooks and about is not None:
        events.recalled(port, about)
    if kept is not None:
        port.run_in_background(*kept.release)
    elif who.startswith(TRIES):
        port.run_in_background(ANSWER, line.keys.plain, (channel, who, b"busy"))


def asked(port: AnyPort, holder: bytes, channel: bytes, who: bytes) -> None:
    """Answer whether the lease of a tenure is in use; of one that is not known, nothing."""
    with port.mutex:
        line = port.lines.recalls.tenures.get(holder)
    if line is not None:
        port.run_in_background(ANSWER, line.keys.plain, (channel, who, _state(line)))


def _state(line: Any) -> bytes:
    return b"idle" if line.kept is not None else b"busy"


def known_idle(port: AnyPort, holder: bytes) -> bool | None:
    """Return True if this client keeps this lease, False if it uses it, None if it has none."""
    with port.mutex:
        line = port.lines.recalls.tenures.get(holder)
        idle = None if line is None else line.kept is not None
    return idle


def give_up_due(port: AnyPort, now: float) -> None:
    """Release the idle leases whose time is up."""
    with port.mutex:
        lines = port.renewals.overdue(now)
        released = [kept for line in lines if (kept := line.overdue(port, now)) is not None]
    for kept in released:
        port.run_in_background(*kept.release)


def give_up_all(port: AnyPort) -> None:
    """Release all idle leases."""
    with port.mutex:
        lines = list(port.lines.recalls.tenures.values())
        released = [kept for line in lines if (kept := line.give_up()) is not None]
    for kept in released:
        port.run_in_background(*kept.release)
