"""Refresh the membership of a quorum: identify its nodes, and keep their records up to date.

The rules are in membership.py.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from fencelock._core.deadlines import DRIFT_RATE
from fencelock._core.lock.terms import Asked
from fencelock._core.quorum.broadcast import (
    Ballot,
    QuorumPort,
    ask_nodes,
    failures_of,
    healthy,
    not_reached,
)
from fencelock._core.quorum.membership import CLAIMED_TTLS, KEPT_SECONDS, LONG_SECONDS, Claimant
from fencelock._core.types import Args, Call
from fencelock._runtime.log import log
from fencelock.errors import FencelockError, ServerUnsuitable
from fencelock.scripts import MEMBERSHIP

if TYPE_CHECKING:
    from collections.abc import Collection


def longest_of(one: Asked) -> float:
    """Return the longest lease that an attempt or a hold may bring, in seconds."""
    options = one.terms.options
    return max(one.ttl, options.ttl if options.renew else 0.0)


def claim(port: QuorumPort, claimant: Claimant, ttl: float) -> None:
    """Note a holder or request of leases of this length, before a node is asked for one."""
    if ttl > LONG_SECONDS:
        with port.mutex:
            port.membership.claimants.add(claimant)


def give_up_claim(port: QuorumPort, *claimants: Claimant) -> None:
    """Note that these have no lease any more; after the last of them, give up the claim."""
    membership = port.membership
    if not membership.claimants:
        return
    with port.mutex:
        membership.claimants.difference_update(claimants)
        number = membership.drop_claim()
    if number:
        port.run_in_background(
            MEMBERSHIP, (port.membership_key,), _words(0.0, port.client_channel, number, 0.0, 0.0)
        )


def _words(ttl: float, client: bytes, number: int, claimed: float, lasts: float) -> Args:
    spans = [ceil(seconds * 1000) for seconds in (KEPT_SECONDS, ttl, claimed, lasts)]
    return (*spans[:2], client, number, *spans[2:])


async def refresh(
    port: QuorumPort,
    one: Asked,
    latest: float,
    renewed: float = 0.0,
    *,
    again: bool = False,
) -> None:
    """Make sure that a majority knows the voters and the longest lease; it nearly always does.

    ``renewed`` is a ttl that was requested later; with ``again`` a claim is renewed in good time.
    Raises QuorumNotReached when no majority answers by ``latest``.
    """
    now = port.now()
    ttl = max(longest_of(one), renewed)
    with port.mutex:
        if not port.membership.stale(ttl, now) and not again:
            return
        first = not port.membership.met
        asks_all = first or port.membership.unsure(now)
    if asks_all:
        await _ask(port, one, ttl, None, latest, avoid=False, all_of_them=first)
        with port.mutex:
            twins = port.membership.twins()
            if twins:
                port.membership.met = False  # so it is checked every time
            else:
                port.membership.judge()
        if twins:  # the vote of one server would count twice
            labels = ", ".join(sorted(port.labels[node] for node in twins))
            raise ServerUnsuitable(
                f"the nodes of a quorum must be different servers, but these are the same: {labels}"
            )
    with port.mutex:
        voters = port.membership.voters(port.now())
    await _ask(port, one, ttl, voters, latest)
    with port.mutex:
        if ttl <= LONG_SECONDS:
            port.membership.longest = max(port.membership.longest, ttl)
        port.membership.written, port.membership.written_at = voters, port.now()


async def _ask(
    port: QuorumPort,
    one: Asked,
    ttl: float,
    voters: Collection[bytes] | None,
    latest: float,
    *,
    avoid: bool = True,
    all_of_them: bool = False,
) -> None:
    """Ask the nodes, and write the voters to them; with None, only ask.

    With ``all_of_them``, wait for each node as long as for an undecided vote: if all servers are
    new, a distant one would otherwise leave the others without a vote.
    """
    now, membership = port.now(), port.membership
    claims_too = voters is not None and ttl > LONG_SECONDS
    with port.mutex:
        number, claimed, until = membership.claim(ttl, now) if claims_too else (0, 0.0, now)
    # On a clock that runs faster than ours it must not end sooner.
    lasts = (until - now) * (1 + 2 * DRIFT_RATE) + 1 if claims_too else 0.0
    short = ttl if ttl <= LONG_SECONDS else 0.0
    words = _words(short, port.client_channel, number, claimed, lasts)
    call: Call = (MEMBERSHIP, (port.membership_key,), (*words, *(voters or ())))
    nodes = healthy(port, now) if avoid else range(len(port.nodes))
    asks = [Ballot(node, one, call) for node in nodes]
    needed = len(asks) if all_of_them else port.needed
    good = await ask_nodes(port, asks, needed, latest, patient=not all_of_them)
    claims: list[tuple[float, float]] = []
    with port.mutex:
        for ask in good:
            longest, longest_claimed, left, *run_ids = ask.reply
            membership.read(ask.node, longest / 1000, run_ids)
            claims.append((longest_claimed / 1000, left / 1000))
        if len(good) >= port.needed:
            membership.read_claims(claims, port.now())
            if claims_too:
                membership.claim_holds(claimed, until)
                for claimant in membership.claimants:
                    claimant.claim_renewed()
    if len(good) < port.needed:
        raise not_reached(port, f"{one.terms.keys.name!r} was not asked for", failures_of(asks))


async def refresh_while_held(port: QuorumPort, one: Asked) -> None:
    """Keep the membership records alive while leases are held; retry a failure with the next."""
    now, ttl = port.now(), longest_of(one)
    again = ttl > LONG_SECONDS and port.membership.claim_until < now + (CLAIMED_TTLS - 0.5) * ttl
    try:
        await refresh(port, one, now + port.node_timeout, again=again)
    except FencelockError as error:
        log.info("the nodes of a quorum could not be informed about each other: %s", error)
