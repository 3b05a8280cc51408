"""Meet the nodes of a quorum: who are they, and do they remember one another? See roster.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencelock._core.fan import Ask, QuorumPort, fan, not_reached, put_back
from fencelock._core.port import Args
from fencelock._core.roster import KEPT_SECONDS
from fencelock._core.want import Request, Want, milliseconds
from fencelock.errors import FencelockError
from fencelock.log import log
from fencelock.scripts import ROSTER

if TYPE_CHECKING:
    from collections.abc import Collection


async def meet(port: QuorumPort, want: Want, latest: float, renewed: float = 0.0) -> None:
    """See that a majority knows who votes and how long leases are; nearly always that is so.

    ``renewed`` is a ttl that was asked for later. Raises QuorumNotReached when no majority answers
    by ``latest``.
    """
    now = port.now()
    ttl = max(want.ttl, want.terms.ttl if want.terms.renew else 0.0, renewed)
    with port.mutex():
        if not port.roster.stale(ttl, now):
            return
        first = not port.roster.met
        asks_all = first or port.roster.unsure(now)
    if asks_all:
        await _ask(port, want, ttl, (), latest, avoid=False, all_of_them=first)
        with port.mutex():
            port.roster.judge()
    with port.mutex():
        voters = port.roster.voters(port.now())
    await _ask(port, want, ttl, voters, latest)
    with port.mutex():
        port.roster.longest = max(port.roster.longest, ttl)
        port.roster.written, port.roster.written_at = voters, port.now()


async def _ask(
    port: QuorumPort,
    want: Want,
    ttl: float,
    voters: Collection[bytes],
    latest: float,
    *,
    avoid: bool = True,
    all_of_them: bool = False,
) -> None:
    """Ask the nodes; of ``all_of_them`` each counts, as long as an undecided node is awaited.

    Where servers are new, one that is far away would else leave the others without a vote.
    """
    args: Args = (milliseconds(KEPT_SECONDS), milliseconds(ttl), *voters)
    request: Request = (ROSTER, (port.roster_key,), args)
    now = port.now()
    nodes = [node for node in range(len(port.nodes)) if port.ill.get(node, 0.0) <= now]
    if len(nodes) < port.needed or not avoid:
        nodes = list(range(len(port.nodes)))
    asks = [Ask(node, want, request) for node in nodes]
    try:
        if all_of_them:
            good = await fan(port, asks, lambda _: True, len(asks), latest)
        else:
            good = await fan(port, asks, lambda _: True, port.needed, latest, patient=True)
    finally:
        put_back(port, asks)
    with port.mutex():
        for ask in good:
            longest, *run_ids = ask.reply
            port.roster.read(ask.node, longest / 1000, run_ids)
    if len(good) < port.needed:
        failures: dict[int, Exception] = {
            ask.node: ask.error for ask in asks if ask.error is not None
        }
        raise not_reached(port, f"{want.keys.name!r} was not asked for", failures)


async def remind(port: QuorumPort, want: Want) -> None:
    """Keep the rosters alive while leases are held; what fails is tried again with the next."""
    try:
        await meet(port, want, port.now() + port.node_timeout)
    except FencelockError as error:
        log.info("the nodes of a quorum could not be told of one another: %s", error)
