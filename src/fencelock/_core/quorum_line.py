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

from fencelock._core.acquire import queue
from fencelock._core.ask import answer_by
from fencelock._core.fan import Ask, fan, settle, undo
from fencelock._core.hold import Grant
from fencelock._core.race import Race, granted
from fencelock._core.timing import renewal_delay
from fencelock._core.waiter import Waiter
from fencelock.errors import OutcomeUnknown, ServerError


class Forgotten(Exception):
    """A node does not have any more what was kept there."""


class _Keeper(Waiter):
    """Stands in line at one node, and keeps the leases of others."""

    def __init__(self, race: Race, node: int, grants: dict[int, Grant], give_up_at: float) -> None:
        super().__init__(race.wants[node])
        self._race, self._grants, self._give_up_at = race, grants, give_up_at
        self._postpone()

    def _postpone(self) -> None:
        port = self._race.port
        self.keep_at = port.now() + renewal_delay(self._race.want.ttl, port.jitter())

    async def keep(self) -> None:
        """Ask for a full lease of each node again; raises Forgotten where one refuses."""
        kept = list(self._grants)
        await ask(self._race, kept, self._grants, self._give_up_at)
        if any(node in self._race.refused for node in kept):
            raise Forgotten
        self._postpone()


async def ask(
    race: Race, nodes: Sequence[int], grants: dict[int, Grant], give_up_at: float
) -> None:
    """Ask nodes for their votes, and count them; those of silent nodes are undone."""
    port = race.port
    fence = max((grant.fence for grant in grants.values()), default=0)
    asks = race.votes(nodes, fence)
    race.refused = [node for node in race.refused if node not in nodes]
    try:
        await fan(port, asks, granted, len(asks), answer_by(port, port.now(), give_up_at))
        race.count(asks, grants)
        undo(port, asks)
    except BaseException:
        undo(port, asks, all_of_them=True)
        raise
    finally:
        port.put_back(asks)
    for each in asks:
        if each.error is not None:
            grants.pop(each.node, None)


async def climb(race: Race, grants: dict[int, Grant], give_up_at: float) -> None:
    """Stand in line where others hold, one node after the other, until a majority has granted."""
    port = race.port
    while len(grants) < port.needed and port.now() < give_up_at:
        node = next((each for each in race.order if each in race.refused), None)
        if node is None or not await _kept(race, node, grants):
            return
        try:
            waiter = _Keeper(race, node, grants, give_up_at)
            grant = await queue(port.nodes[node], waiter.want, give_up_at, waiter)
        except Forgotten:
            return
        except (ServerError, OutcomeUnknown) as error:
            race.fail(node, error)
            continue
        race.refused.remove(node)
        if grant is None:
            race.refused.append(node)
            return
        grants[node] = grant
        others = [each for each in race.order if each not in race.failures]
        await ask(race, others, grants, give_up_at)


async def _kept(race: Race, node: int, grants: dict[int, Grant]) -> bool:
    """Give back what comes after a node in the order; False when nothing is left then."""
    later = race.order[race.order.index(node) :]
    back = [each for each in later if each in grants]
    wants = {each: race.wants[each] for each in back}
    for each in back:
        del grants[each]
        race.ask_anew(each)
    await settle(race.port, [Ask(each, wants[each], wants[each].abandon(b"")) for each in back])
    return bool(grants)
