"""Stand in line at several nodes of a quorum, one after the other.

Rules of this file:

- Permits are voted for behind a node's line: whoever cannot reach the first node is passed for ever
  by those who can, unless it stands in line wherever it is refused. A plain lock needs none of
  this: its votes ignore lines, and it has one holder, whose release lets all start level.
- A client waits at one node while it keeps its leases of nodes that come before that one, and
  gives back those of later nodes. All wait in one order, so none wait for each other in a circle.
- What is kept is asked for again at the rhythm of renewal, and once more at the end: the lease that
  is granted is a full one.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._core.deadlines import renewal_delay
from fencelock._core.lock.acquire import queue
from fencelock._core.lock.hold import Grant
from fencelock._core.lock.waiter import Waiter
from fencelock._core.quorum.attempt import QuorumAttempt, granted
from fencelock._core.quorum.broadcast import NodeRequest, broadcast, settle, undo
from fencelock._core.retry import answer_by
from fencelock.errors import OutcomeUnknown, ServerError


class NodeForgot(Exception):
    """A node does not have any more what was kept there."""


class _QueueWaiter(Waiter):
    """Stands in line at one node, and keeps the leases of others."""

    def __init__(
        self, quorum_attempt: QuorumAttempt, node: int, grants: dict[int, Grant], give_up_at: float
    ) -> None:
        super().__init__(quorum_attempt.wants[node])
        self._quorum_attempt, self._grants, self._give_up_at = quorum_attempt, grants, give_up_at
        self._postpone()

    def _postpone(self) -> None:
        port = self._quorum_attempt.port
        self.renew_elsewhere_at = port.now() + renewal_delay(
            self._quorum_attempt.want.ttl, port.jitter()
        )

    async def renew_elsewhere(self) -> None:
        """Ask for a full lease of each node again; raises Forgotten where one refuses."""
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


async def queue_at_nodes(
    quorum_attempt: QuorumAttempt, grants: dict[int, Grant], give_up_at: float
) -> None:
    """Stand in line where others hold, one node after the other, until a majority has granted."""
    port = quorum_attempt.port
    while len(grants) < port.needed and port.now() < give_up_at:
        node = next((each for each in quorum_attempt.order if each in quorum_attempt.refused), None)
        if node is None or not await _kept(quorum_attempt, node, grants):
            return
        try:
            waiter = _QueueWaiter(quorum_attempt, node, grants, give_up_at)
            grant = await queue(port.nodes[node], waiter.want, give_up_at, waiter)
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
    """Give back what comes after a node in the order; False when nothing is left then."""
    later = quorum_attempt.order[quorum_attempt.order.index(node) :]
    back = [each for each in later if each in grants]
    wants = {each: quorum_attempt.wants[each] for each in back}
    for each in back:
        del grants[each]
        quorum_attempt.ask_anew(each)
    await settle(
        quorum_attempt.port,
        [NodeRequest(each, wants[each], wants[each].abandon(b"")) for each in back],
    )
    return bool(grants)
