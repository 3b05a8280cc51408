"""Acquire a lock on a majority of independent servers.

Rules of this file:

- Every client acquires the lock on its first node, in the ordinary way and in its line, before it
  asks the others. So contenders meet in one line, no client polls, and votes are split only while
  clients disagree about which node comes first.
- Validity counts per node, from before its request was sent; the lease is what a majority proves.
- A grant is reported once a majority has recorded its fence (I3).
- Without a majority, all grants are released, the first node last, so that the next waiter in its
  line finds the others free. Requests at silent nodes are undone in the background.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fencelock._core.deadlines import retry_delay
from fencelock._core.deadlock.unit_waits import left
from fencelock._core.lock.acquire import ROUNDING_SECONDS, queue, try_once, withdraw
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.hold import Hold, first_due
from fencelock._core.lock.release import release_call, retire
from fencelock._core.lock.terms import too_late
from fencelock._core.lock.waiting import EXPIRY_SLACK
from fencelock._core.quorum.attempt import QuorumAttempt, granted, restarted
from fencelock._core.quorum.broadcast import (
    Ballot,
    QuorumPort,
    broadcast,
    not_reached,
    settle,
    undo,
)
from fencelock._core.quorum.lease import Majority, NodeHold, majority_of, make_hold
from fencelock._core.quorum.refresh import claim, give_up_claim, longest_of, refresh
from fencelock._core.quorum.votes import proved_until
from fencelock._core.retry import answer_by
from fencelock._core.types import Call, closed
from fencelock.errors import (
    FencelockError,
    OutcomeUnknown,
    QuorumNotReached,
    ServerError,
    ServerUnsuitable,
)
from fencelock.scripts import RAISE_FENCE

# If leases end within this time, the client that has the first node waits for them.
STAY_SECONDS = 0.1


async def take(port: QuorumPort, attempt: Attempt) -> Hold | None:
    """Acquire on a majority; None when others hold it, QuorumNotReached on errors."""
    quorum_attempt = QuorumAttempt(port, attempt)
    claim(port, quorum_attempt, longest_of(attempt))
    try:
        return await _rounds(quorum_attempt)
    finally:
        give_up_claim(port, quorum_attempt)


async def _rounds(quorum_attempt: QuorumAttempt) -> Hold | None:
    """Ask in rounds until a majority has granted, other clients hold it, or too many nodes fail."""
    many, attempt = quorum_attempt.port, quorum_attempt.attempt
    at_once, give_up_at = attempt.at_once, attempt.give_up_at
    failing_since: float | None = None
    while True:
        try:
            await refresh(many, attempt, answer_by(many, many.now(), give_up_at))
        except QuorumNotReached:
            now = many.now()
            failing_since = failing_since or now
            if at_once or now >= min(give_up_at, failing_since + many.server_timeout):
                raise
            quorum_attempt.begin_round()
            await _pause(quorum_attempt, give_up_at)
            continue
        quorum_attempt.begin_round()
        hold = await _round(quorum_attempt)
        if hold is not None:
            return hold
        now = many.now()
        failing = quorum_attempt.prevented()
        failing_since = (failing_since or now) if failing else None
        if failing_since is not None and now >= min(
            give_up_at, failing_since + many.server_timeout
        ):
            raise _failed(quorum_attempt)
        if at_once or now >= give_up_at:
            if failing:
                raise _failed(quorum_attempt)
            return None
        await _pause(quorum_attempt, give_up_at)


async def _pause(quorum_attempt: QuorumAttempt, give_up_at: float) -> None:
    """Back off for a jittered delay, so that competing clients do not split the vote again."""
    port = quorum_attempt.port
    pause = retry_delay(quorum_attempt.rounds, port.jitter())
    await port.sleep(min(give_up_at, port.now() + pause))


def _failed(quorum_attempt: QuorumAttempt) -> FencelockError:
    # the last round may have ended by the timeout after one node
    causes = quorum_attempt.before | quorum_attempt.failures
    return not_reached(
        quorum_attempt.port, f"{quorum_attempt.attempt.keys.name!r} was not granted", causes
    )


async def _round(quorum_attempt: QuorumAttempt) -> Hold | None:
    """Acquire on the first healthy node, in its line if we may wait; then ask the others."""
    port = quorum_attempt.port
    at_once, give_up_at = quorum_attempt.attempt.at_once, quorum_attempt.attempt.give_up_at
    for node in quorum_attempt.candidates():
        if len(quorum_attempt.failures) > len(port.nodes) - port.needed:
            return None
        if quorum_attempt.failures and port.now() >= give_up_at and not at_once:
            if quorum_attempt.stood:  # time ran out because of other holders
                quorum_attempt.refused = [
                    each for each in quorum_attempt.order if each not in quorum_attempt.failures
                ]
            return None
        began = port.now()
        try:
            grant = await _ask_first(quorum_attempt, node)
        except (ServerError, OutcomeUnknown) as error:
            if isinstance(error, ServerUnsuitable) and error.code == "WRONGTYPE":
                raise  # the kind of a name is the same everywhere
            quorum_attempt.fail(node, error)
            quorum_attempt.rename()
            quorum_attempt.stood = (
                quorum_attempt.stood or port.now() > began + 2 * port.nodes[node].server_timeout
            )
            continue
        if grant is None:
            quorum_attempt.refused = list(range(len(port.nodes)))
            return None
        return await _ask_others(quorum_attempt, node, grant)
    return None


async def _ask_first(quorum_attempt: QuorumAttempt, node: int) -> Grant | None:
    """Ask the first node; while it waits in that line, the thread or task can be in a deadlock."""
    port, attempt = quorum_attempt.port.nodes[node], quorum_attempt.attempts[node]
    attempt.unit, attempt.give_up_at = (
        quorum_attempt.attempt.unit,
        quorum_attempt.attempt.give_up_at,
    )
    try:
        if quorum_attempt.attempt.at_once:
            return await try_once(port, attempt)
        return await queue(port, attempt, attempt, attempt.give_up_at, outlasts=False)
    except BaseException:
        withdraw(port, attempt)
        raise
    finally:
        if attempt.wait is not None:
            left(port, attempt)


async def _ask_others(quorum_attempt: QuorumAttempt, first: int, grant: Grant) -> Hold | None:
    port, grants = quorum_attempt.port, {first: grant}
    asks: list[Ballot] = []
    latest = answer_by(port, port.now(), quorum_attempt.attempt.give_up_at)
    try:
        for group in _groups(quorum_attempt, first):
            if len(grants) >= port.needed:
                break
            more = quorum_attempt.votes(group, grant.fence)
            asks += more
            await broadcast(port, more, granted, port.needed - len(grants), latest)
            quorum_attempt.count(more, grants)
            if len(grants) < port.needed:
                asks += await _stay(quorum_attempt, more, grants, latest)
        hold = await _taken(quorum_attempt, grants)
        if hold is not None:
            if len(asks) >= len(grants):  # some of the votes were refused
                undo(port, [ask for ask in asks if ask.node not in grants], all_of_them=True)
            return hold
        undo(port, asks)
        port.put_back(asks)
        await _give_back(quorum_attempt, grants)
        quorum_attempt.stand_at = (
            quorum_attempt.refused[0] if len(quorum_attempt.refused) >= port.needed else None
        )
    except BaseException:
        undo(port, asks, all_of_them=True)
        for node in {first, *grants}:
            _abandon(quorum_attempt, node)
        raise
    else:
        return None
    finally:
        port.put_back(asks)


def _abandon(quorum_attempt: QuorumAttempt, node: int) -> None:
    """Undo in the background what a node was asked for, or has granted."""
    attempt = quorum_attempt.attempts[node]
    quorum_attempt.port.nodes[node].run_in_background(*attempt.terms.abandon(attempt))


async def _taken(quorum_attempt: QuorumAttempt, grants: dict[int, Grant]) -> Hold | None:
    """Make a hold of the grants; return None if they are no majority."""
    port, fence = quorum_attempt.port, max((each.fence for each in grants.values()), default=0)
    if not _voting(quorum_attempt, grants) or not await _written(quorum_attempt, grants, fence):
        return None
    if proved_until([each.deadline for each in grants.values()], port.needed) <= port.now():
        raise too_late(quorum_attempt.attempt.ttl)
    return _begin(quorum_attempt, grants, fence)


def _groups(quorum_attempt: QuorumAttempt, first: int) -> list[list[int]]:
    """Return the other healthy nodes, and those that are asked only if votes are missing."""
    now = quorum_attempt.port.now()
    others = [node for node in quorum_attempt.candidates() if node != first]
    if not quorum_attempt.port.suspect:
        return [others]
    well = [node for node in others if not quorum_attempt.suspect(node, now)]
    return [well, [node for node in others if quorum_attempt.suspect(node, now)]]


async def _stay(
    quorum_attempt: QuorumAttempt,
    asks: Sequence[Ballot],
    grants: dict[int, Grant],
    latest: float,
) -> list[Ballot]:
    """Ask nodes again where a lease ends in a moment: leases of one lock end one after another.

    Otherwise the first waiter would have to queue again, and could lose its place.
    """
    port, lacking = quorum_attempt.port, quorum_attempt.port.needed - len(grants)
    held = [ask for ask in asks if ask.error is None and not ask.good]
    ends = sorted((_left(ask), ask.node) for ask in held)[: max(0, lacking)]
    if not ends or len(ends) < lacking or ends[-1][0] > STAY_SECONDS:
        return []
    await port.sleep(port.now() + ends[-1][0])
    again = [Ballot(ask.node, ask.about, ask.call) for ask in held]
    quorum_attempt.refused = [
        node for node in quorum_attempt.refused if node not in {ask.node for ask in again}
    ]
    try:
        await broadcast(port, again, granted, lacking, max(latest, port.now() + port.node_timeout))
    except BaseException:
        undo(port, again, all_of_them=True)
        port.put_back(again)
        raise
    quorum_attempt.count(again, grants)
    return again


def _left(ask: Ballot) -> float:
    """Return how long the other client's lease at this node lasts, in seconds."""
    left_ms: int = ask.reply[0]
    return left_ms / 1000 + EXPIRY_SLACK if left_ms >= 0 else inf


def _voting(quorum_attempt: QuorumAttempt, grants: dict[int, Grant]) -> bool:
    """Drop the grants of nodes that were restarted meanwhile; return True if a majority is left."""
    port, now = quorum_attempt.port, quorum_attempt.port.now()
    with port.mutex:
        gone = port.membership.without_vote(grants)
    for node in gone:
        quorum_attempt.failures[node] = restarted(port, node, now)
    if len(grants) - len(gone) < port.needed:
        return False
    for node in gone:
        del grants[node]
        _abandon(quorum_attempt, node)
    return True


async def _written(quorum_attempt: QuorumAttempt, grants: dict[int, Grant], fence: int) -> bool:
    """Have a majority record the fence; return True at once if it has."""
    port = quorum_attempt.port
    low = [node for node, grant in grants.items() if grant.fence < fence]
    lacking = port.needed - (len(grants) - len(low))
    if lacking <= 0:
        return True
    args = (quorum_attempt.attempt.holder_id, b"%d" % fence)
    call: Call = (RAISE_FENCE, quorum_attempt.attempt.keys.renew, args)
    asks = [Ballot(node, quorum_attempt.attempts[node], call) for node in low]
    try:
        good = await broadcast(port, asks, lambda ask: ask.reply == 1, lacking)
    finally:
        port.put_back(asks)
    quorum_attempt.failures.update({ask.node: ask.error for ask in asks if ask.error is not None})
    return len(good) >= lacking


def _begin(quorum_attempt: QuorumAttempt, grants: dict[int, Grant], fence: int) -> Hold:
    """Make each node's grant an ordinary hold of that node, and all of them one hold."""
    port = quorum_attempt.port
    attempt, registry = quorum_attempt.attempt, quorum_attempt.attempt.registry
    kind, first = registry.hold_type, next(iter(grants))
    hold = attempt.hold = make_hold(port, attempt, fence, kind, attempt.who, first=first)
    parts = majority_of(hold)
    parts.cover(longest_of(attempt))
    try:
        _begin_parts(quorum_attempt, grants, parts)
        with port.mutex:
            parts.unite()
        if hold.deadline <= port.now() and not port.closing:  # parts were lost before that
            raise too_late(quorum_attempt.attempt.ttl)
        registry.add(hold)
        parts.plan_reacquire(port.now())
        port.track(hold, parts.next_due())
        if port.closing:  # while it was granted: nothing would give it back
            raise closed()
    except BaseException:
        registry.remove(hold)
        retire(port, hold)
        for node in grants:
            port.nodes[node].run_in_background(*release_call(quorum_attempt.attempts[node], fence))
        give_up_claim(port, parts)
        raise
    return hold


def _begin_parts(quorum_attempt: QuorumAttempt, grants: dict[int, Grant], parts: Majority) -> None:
    """Make each node's grant a hold of that node, and track it.

    Leases of one length are due together. A later one is due no later than the first of them.
    """
    port, fence = quorum_attempt.port, parts.hold.fence
    lease, deadline, when = 0.0, inf, inf
    for node, grant in grants.items():
        at, asked = port.nodes[node], quorum_attempt.attempts[node]
        part = NodeHold(at, asked, fence, min(grant.deadline, asked.terms.ends))
        parts[node] = part
        part.short = grant.lease < asked.ttl - ROUNDING_SECONDS
        if grant.lease != lease or part.deadline < deadline or when >= deadline:
            lease, deadline = grant.lease, part.deadline
            when = first_due(part, lease, port.jitter(), part.granted_at)
        at.track(part, when)


async def _give_back(quorum_attempt: QuorumAttempt, grants: dict[int, Grant]) -> None:
    """Release partial grants; the first node last: its next waiter then asks the other nodes."""
    at = quorum_attempt.attempts
    asks = [Ballot(node, at[node], at[node].terms.abandon(at[node])) for node in grants]
    await settle(quorum_attempt.port, asks[1:])
    await settle(quorum_attempt.port, asks[:1])
