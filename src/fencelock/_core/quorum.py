"""Take a lock on a majority of independent servers.

Rules of this file:

- All take the lock on its first node, in the ordinary way and in its line, before they ask the
  others: so contenders meet in one line, nobody polls, and votes are split only while clients
  disagree about which node comes first.
- Validity counts per node, from before its request was sent; the lease is what a majority proves.
- A grant is reported once a majority has recorded its fence (I3).
- No majority: what was granted anywhere is given back, the first node last, so that whoever is next
  in its line finds the others free. Silent nodes are undone in the background.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

from fencelock._core.acquire import attempt, begin, queue
from fencelock._core.ask import answer_by
from fencelock._core.fan import Ask, QuorumPort, fan, not_reached, settle, undo
from fencelock._core.hold import Grant, Hold, Taker
from fencelock._core.meet import claim, give_up_claim, longest_of, meet
from fencelock._core.quorum_hold import PARTS, majority_of, make_hold
from fencelock._core.quorum_line import climb
from fencelock._core.race import Race, granted, restarted
from fencelock._core.release import request as release_request
from fencelock._core.release import retire
from fencelock._core.timing import retry_delay
from fencelock._core.types import Request
from fencelock._core.votes import proved_until
from fencelock._core.waiters import EXPIRY_SLACK
from fencelock._core.want import Want, too_late
from fencelock.errors import (
    FencelockError,
    OutcomeUnknown,
    QuorumNotReached,
    ServerError,
    ServerUnsuitable,
)
from fencelock.scripts import RAISE

# Where leases end within this time, who has the first node waits for them.
STAY_SECONDS = 0.1


async def take(  # noqa: PLR0917 - as ``Flows.take``
    port: QuorumPort,
    want: Want,
    give_up_at: float,
    taker: Taker,
    unit: object,
    at_once: bool,  # noqa: FBT001 - as above
) -> Hold | None:
    """Take a lock on a majority; None when others hold it, QuorumNotReached when errors did it."""
    race = Race(port, want)
    claim(port, race, longest_of(want))
    try:
        return await _rounds(race, give_up_at, taker, unit, at_once=at_once)
    finally:
        give_up_claim(port, race)


async def _rounds(
    race: Race, give_up_at: float, taker: Taker, unit: object, *, at_once: bool
) -> Hold | None:
    """Ask in rounds until a majority has granted, or others hold, or too many nodes fail."""
    many, want = race.port, race.want
    failing_since: float | None = None
    while True:
        try:
            await meet(many, want, answer_by(many, many.now(), give_up_at))
        except QuorumNotReached:
            now = many.now()
            failing_since = failing_since or now
            if at_once or now >= min(give_up_at, failing_since + many.patience):
                raise
            race.begin_round()
            await _pause(race, give_up_at)
            continue
        race.begin_round()
        hold = await _round(race, give_up_at, taker, unit, at_once=at_once)
        if hold is not None:
            return hold
        if want.other is not None:
            want.other.check()
        now = many.now()
        failing = race.prevented()
        failing_since = (failing_since or now) if failing else None
        if failing_since is not None and now >= min(give_up_at, failing_since + many.patience):
            raise _failed(race)
        if at_once or now >= give_up_at:
            if failing:
                raise _failed(race)
            return None
        await _pause(race, give_up_at)


async def _pause(race: Race, give_up_at: float) -> None:
    """Let others go first for a moment, which varies: who split the votes once may do it again."""
    port = race.port
    pause = retry_delay(race.rounds, port.jitter())
    await port.sleep(min(give_up_at, port.now() + pause))


def _failed(race: Race) -> FencelockError:
    causes = race.before | race.failures  # time may have ended the last round after one node
    return not_reached(race.port, f"{race.want.keys.name!r} was not granted", causes)


async def _round(
    race: Race, give_up_at: float, taker: Taker, unit: object, *, at_once: bool
) -> Hold | None:
    """Take the lock on its first node that is well, in line where we wait; then ask the others."""
    port, once = race.port, at_once or race.want.once
    for node in race.candidates():
        if len(race.failures) > len(port.nodes) - port.needed:
            return None
        if race.failures and port.now() >= give_up_at and not at_once:
            if race.stood:  # others held it when the nodes failed: time stood against us
                race.refused = [each for each in race.order if each not in race.failures]
            return None
        flow, began = attempt if once else partial(queue, outlasts=False), port.now()
        try:
            grant = await flow(port.nodes[node], race.wants[node], give_up_at)
        except (ServerError, OutcomeUnknown) as error:
            if isinstance(error, ServerUnsuitable) and error.code == "WRONGTYPE":
                raise  # what a name holds is the same everywhere
            race.fail(node, error)
            race.rename()
            race.stood = race.stood or port.now() > began + 2 * port.nodes[node].patience
            continue
        if grant is None and race.want.other is not None:
            race.refuse(node)
            continue
        if grant is None:
            race.refused = list(range(len(port.nodes)))
            return None
        return await _ask_others(race, node, grant, give_up_at, taker, unit, waits=not once)
    return None


async def _ask_others(  # noqa: PLR0917 - all of it belongs to one acquisition
    race: Race,
    first: int,
    grant: Grant,
    give_up_at: float,
    taker: Taker,
    unit: object,
    *,
    waits: bool,
) -> Hold | None:
    port, grants = race.port, {first: grant}
    asks: list[Ask] = []
    latest = answer_by(port, port.now(), give_up_at)
    try:
        for group in _groups(race, first):
            if len(grants) >= port.needed:
                break
            more = race.votes(group, grant.fence)
            asks += more
            await fan(port, more, granted, port.needed - len(grants), latest)
            race.count(more, grants)
            if len(grants) < port.needed:
                asks += await _stay(race, more, grants, latest)
        if waits and race.want.lines_up and len(grants) < port.needed:
            undo(port, asks)
            port.put_back(asks)
            await climb(race, grants, give_up_at)
        hold = await _taken(race, grants, taker, unit)
        if hold is not None:
            undo(port, [ask for ask in asks if ask.node not in grants], all_of_them=True)
            return hold
        undo(port, asks)
        port.put_back(asks)
        await _give_back(race, grants)
        race.stand_at = race.refused[0] if len(race.refused) >= port.needed else None
    except BaseException:
        undo(port, asks, all_of_them=True)
        for node in {first, *grants}:
            port.nodes[node].post(*race.wants[node].abandon(b""))
        raise
    else:
        return None
    finally:
        port.put_back(asks)


async def _taken(race: Race, grants: dict[int, Grant], taker: Taker, unit: object) -> Hold | None:
    """Make a hold of what was granted, or return None where that is no majority."""
    port, fence = race.port, max((each.fence for each in grants.values()), default=0)
    if not _voting(race, grants) or not await _written(race, grants, fence):
        return None
    if proved_until([each.deadline for each in grants.values()], port.needed) <= port.now():
        raise too_late(race.want)
    return _begin(race, grants, fence, taker, unit)


def _groups(race: Race, first: int) -> list[list[int]]:
    """Return the other nodes that are well, and those that are asked only when votes lack."""
    now = race.port.now()
    others = [node for node in race.candidates() if node != first]
    if not race.port.ill:
        return [others]
    well = [node for node in others if not race.ill(node, now)]
    return [well, [node for node in others if race.ill(node, now)]]


async def _stay(
    race: Race, asks: Sequence[Ask], grants: dict[int, Grant], latest: float
) -> list[Ask]:
    """Ask once more where a lease ends in a moment: leases of one lock end one after the other.

    Whoever stood first in line would else go back, and come in another order.
    """
    port, lacking = race.port, race.port.needed - len(grants)
    held = [ask for ask in asks if ask.error is None and not ask.good]
    ends = sorted((_left(ask), ask.node) for ask in held)[: max(0, lacking)]
    if not ends or len(ends) < lacking or ends[-1][0] > STAY_SECONDS:
        return []
    await port.sleep(port.now() + ends[-1][0])
    again = [Ask(ask.node, ask.want, ask.request) for ask in held]
    race.refused = [node for node in race.refused if node not in {ask.node for ask in again}]
    try:
        await fan(port, again, granted, lacking, max(latest, port.now() + port.node_timeout))
    except BaseException:
        undo(port, again, all_of_them=True)
        port.put_back(again)
        raise
    race.count(again, grants)
    return again


def _left(ask: Ask) -> float:
    """Return how long the lease lasts that stood against us, in seconds."""
    left_ms = ask.reply[0] if len(ask.reply) == 1 else ask.reply[1]
    return left_ms / 1000 + EXPIRY_SLACK if left_ms >= 0 else inf


def _voting(race: Race, grants: dict[int, Grant]) -> bool:
    """Count out nodes that were restarted meanwhile; return True if a majority is left."""
    port, now = race.port, race.port.now()
    with port.mutex():
        gone = port.roster.without_vote(grants)
    for node in gone:
        race.failures[node] = restarted(port, node, now)
    if len(grants) - len(gone) < port.needed:
        return False
    for node in gone:
        del grants[node]
        port.nodes[node].post(*race.wants[node].abandon(b""))
    return True


async def _written(race: Race, grants: dict[int, Grant], fence: int) -> bool:
    """Have a majority record the fence; True at once when it has."""
    port = race.port
    low = [node for node, grant in grants.items() if grant.fence < fence]
    lacking = port.needed - (len(grants) - len(low))
    if lacking <= 0:
        return True
    args = (race.want.holder, b"%d" % fence)
    request: Request = (RAISE, race.want.keys.grant, args)
    asks = [Ask(node, race.wants[node], request) for node in low]
    try:
        good = await fan(port, asks, lambda ask: ask.reply == 1, lacking)
    finally:
        port.put_back(asks)
    race.failures.update({ask.node: ask.error for ask in asks if ask.error is not None})
    return len(good) >= lacking


def _begin(race: Race, grants: dict[int, Grant], fence: int, taker: Taker, unit: object) -> Hold:
    """Make each node's grant an ordinary hold of that node, and all of them the taker's hold."""
    port = race.port
    hold = make_hold(port, race.want, fence, taker, unit, first=next(iter(grants)))
    parts = majority_of(hold)
    parts.named = race.named
    parts.cover(longest_of(race.want))
    try:
        for node, grant in grants.items():
            own = grant._replace(fence=fence)
            part = begin(port.nodes[node], race.wants[node], own, PARTS, None)
            with port.mutex():
                parts.join(node, part)
        taker.add(hold)
        parts.plan_healing(port.now())
        port.keep(hold, parts.next_attention())
    except BaseException:
        taker.remove(hold)
        retire(port, hold)
        for node in grants:
            port.nodes[node].post(*release_request(race.wants[node], fence))
        give_up_claim(port, parts)
        raise
    return hold


async def _give_back(race: Race, grants: dict[int, Grant]) -> None:
    """Give back what was granted in vain: the first node last, as who is next there asks us."""
    asks = [Ask(node, race.wants[node], race.wants[node].abandon(b"")) for node in grants]
    await settle(race.port, asks[1:])
    await settle(race.port, asks[:1])
