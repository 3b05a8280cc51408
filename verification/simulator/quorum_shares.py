"""Watches a reader/writer lock of a quorum: who proves which side, and what each node has.

It counts for itself, as testing/shares.py: the leases that stand on the nodes, never a counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fencelock._core.lock.hold import Hold
from fencelock._core.objects.semaphore_rwlock import WRITE
from fencelock._core.quorum.votes import known_as
from verification.simulator.monitor import Violation
from verification.simulator.network import Client
from verification.simulator.quorum_monitor import QuorumMonitor
from verification.simulator.server import Server
from verification.simulator.shares import ShareView, read

if TYPE_CHECKING:
    from fencelock._core.lock.request import AcquireRequest

# A waiter that has waited for so much longer than another is granted first: readers that come and
# go, and overlap, may not keep a writer out.
OVERTAKEN_US_MAX = 600_000


def _writes(hold: Hold) -> bool:
    template: Any = hold.request.template
    return bool(template.permits == WRITE)


class QuorumSharesMonitor(QuorumMonitor):
    """Checks one reader/writer lock of a quorum."""

    _last_written = 0  # the last fence of a writer

    # -- what processes report ------------------------------------------------------------------

    def _in_order(self, hold: Hold) -> None:
        """Judge a fence: readers who hold beside one another have theirs in no order."""
        fence, last = hold.fence, self._last_written
        if fence <= (self._granted if _writes(hold) else last):
            raise Violation("I3", f"fence {fence} after {self._granted}, written {last}")
        self._granted = max(self._granted, fence)
        if _writes(hold):
            self._last_written = fence

    def holds_now(self, client: Client, hold: Hold) -> None:
        """See that nobody was overtaken who came long before."""
        running = self._world.running
        mine = self._asked_us[running] if running is not None else 0
        super().holds_now(client, hold)
        for task, request in self._asking.items():
            came_before = mine - self._asked_us[task] > OVERTAKEN_US_MAX and not task.done
            if came_before and task.client is not client and not self._world.faulty:
                raise Violation(
                    "I5", f"{hold.request.holder!r} was granted, {request.holder!r} waits"
                )

    # -- the nodes' truth -----------------------------------------------------------------------

    def _read(self, server: Server) -> ShareView:
        view, now_us = read(server.state), server.now_us
        leases = {who: each for who, each in view.leases.items() if each.end_us > now_us}
        return view._replace(leases=leases)

    def _leases(self, view: Any) -> dict[bytes, int]:
        return {who: lease.end_us for who, lease in view.leases.items()}

    def _waits_at(self, view: Any) -> list[bytes]:
        return [entry.waiter for entry, _ in view.line]

    # -- after every step -----------------------------------------------------------------------

    def _exclude(self, held: Sequence[Hold]) -> None:
        """See that a writer is alone, but for what it reads itself."""
        for writer in filter(_writes, held):
            others = [hold for hold in held if hold is not writer]
            if strange := [each for each in others if each.request.other is not writer]:
                names = [each.request.holder for each in (writer, *strange)]
                raise Violation("I1", f"a writer and others rely on leases: {names}")

    def _open_to(self, request: AcquireRequest, view: Any, asking: set[bytes]) -> bool:
        """Return True if a node could grant: nobody is there but those who ask, or readers are."""
        template: Any = request.template
        others = [lease for who, lease in view.leases.items() if known_as(who) not in asking]
        reads = template.permits != WRITE and all(lease.permits != WRITE for lease in others)
        return not others or (reads and not view.line)
