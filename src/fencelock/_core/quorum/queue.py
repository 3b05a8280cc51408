"""Wait in line at several nodes of a quorum, one after the other.

Rules of this file:

- Votes for permits respect a node's line: clients that reach the first node would overtake a client
  that does not for ever, unless that client queues at every node that refuses it. A plain lock does
  not need this: its votes ignore lines, and after its one holder's release all start equal.
- A client waits at one node while it keeps its leases of the nodes that come before that one, and
  releases those of later nodes. All wait in one order, so no circle of waiters can form.
- While it waits at a node, what holds that node's permits keeps it from being granted: a certain
  edge of a deadlock (chase.py). What it keeps itself is none: no lease of the quorum has begun.
- Kept leases are requested again at the interval of renewals, and once more at the end: the lease
  that is granted is a full one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from fencelock._core.deadlines import renewal_delay
from fencelock._core.deadlock.unit_waits import left
from fencelock._core.lock.acquire import queue
from fencelock._core.lock.hold import Grant
from fencelock._core.lock.request import AcquireRequest
from fencelock._core.lock.waiter import Waiter
from fencelock._core.port import Port
from fencelock._core.quorum.attempt import QuorumAttempt, granted
from fencelock._core.quorum.broadcast import NodeRequest, broadcast, settle, undo
from fencelock._core.retry import answer_by
from fencelock.errors import OutcomeUnknown, ServerError


class NodeForgot(Exception):
    """A node no longer has the lease that was kept there."""


class _QueueWaiter(Waiter):
    """A waiter in line at one node, which keeps the leases of others."""

    def __init__(
        self, quorum_attempt: QuorumAttempt, node: int, grants: dict[int, Grant], give_up_at: float
    ) -> None:
        super().__init__(quorum_attempt.requests[node])
        self._quorum_attempt, self._grants, self._give_up_at = quorum_attempt, grants, give_up_at
        self._postpone()

    def _postpone(self) -> None:
        port = self._quorum_attempt.port
        self.renew_elsewhere_at = port.now() + renewal_delay(
            self._quorum_attempt.request.ttl, port.jitter()
        )

    async def renew_elsewhere(self) -> None:
        """Request a full lease of each node again; raises NodeForgot if one refuses."""
        kept = list(self._grants)
        await collect_votes(self._quorum_attempt, kept, self._grants, self._give_up_at)
        if any(node in self._quorum_attempt.refused for node in kept):
            raise NodeForgot
        self._postpone()


async def collect_votes(
    quorum_attempt: QuorumAttempt, nodes: Sequence[int], grants: dict[int, Grant], give_up_at: float
) -> None:
    """Ask nodes for their votes, and count them; those of silent nodes are undone."""
    port = quorum_attempt.port
    fence = max((grant.fence for grant in grants.values()), default=0)
    asks = quorum_attempt.votes(nodes, fence)
    quorum_attempt.refused = [node for node in quorum_attempt.refused if node not in nodes]
    try:
        await broadcast(port, asks, granted, len(asks), answer_by(port, port.now(), give_up_at))
        quorum_attempt.count(asks, grants)
        undo(port, asks)
    except BaseException:
        undo(port, asks, all_of_them=True)
        raise
    finally:
        port.put_back(asks)
    for each in asks:
        if each.error is not None:
            grants.pop(each.node, None)


async def grant_of(
    quorum_attempt: QuorumAttempt,
    node: int,
    flow: Callable[[Port, AcquireRequest, float], Awaitable[Grant | None]],
    give_up_at: float,
) -> Grant | None:
    """Ask one node; while it waits in that line, the thread or task can be in a deadlock."""
    at, request = quorum_attempt.port.nodes[node], quorum_attempt.requests[node]
    request.unit = quorum_attempt.request.unit
    try:
        return await flow(at, request, give_up_at)
    finally:
        if request.unit_wait is not None:
            left(at, request)
        request.unit = None


async def queue_at_nodes(
    quorum_attempt: QuorumAttempt, grants: dict[int, Grant], give_up_at: float
) -> None:
    """Wait in line where others hold, one node after the other, until a majority has granted."""
    port = quorum_attempt.port
    while len(grants) < port.needed and port.now() < give_up_at:
        node = next((each for each in quorum_attempt.order if each in quorum_attempt.refused), None)
        if node is None or not await _kept(quorum_attempt, node, grants):
            return
        try:
            waiter = _QueueWaiter(quorum_attempt, node, grants, give_up_at)
            in_line = partial(queue, waiter=waiter)
            grant = await grant_of(quorum_attempt, node, in_line, give_up_at)
        except NodeForgot:
            return
        except (ServerError, OutcomeUnknown) as error:
            quorum_attempt.fail(node, error)
            continue
        quorum_attempt.refused.remove(node)
        if grant is None:
            quorum_attempt.refused.append(node)
            return
        grants[node] = grant
        others = [each for each in quorum_attempt.order if each not in quorum_attempt.failures]
        await collect_votes(quorum_attempt, others, grants, give_up_at)


async def _kept(quorum_attempt: QuorumAttempt, node: int, grants: dict[int, Grant]) -> bool:
    """Release the leases of nodes after this one in the order; return False if none is left."""
    later = quorum_attempt.order[quorum_attempt.order.index(node) :]
    back = [each for each in later if each in grants]
    requests = {each: quorum_attempt.requests[each] for each in back}
    for each in back:
        del grants[each]
        quorum_attempt.ask_anew(each)
    await settle(
        quorum_attempt.port,
        [NodeRequest(each, requests[each], requests[each].abandon(b"")) for each in back],
    )
    return bool(grants)
