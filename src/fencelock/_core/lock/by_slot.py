"""Leases and lines that lie in many slots, on several nodes: what differs from one server.

Rules of this file:

- A script touches one slot; all requests to one node are written together and answered together.
- Nodes are asked in parallel: a silent one holds up only its own locks.
- A node with a request under way is not asked again: leases that are due there wait in the renewal
  schedule, and their holders are notified of a loss in time (I8).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.heartbeat import heartbeat_request, learn
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.renew import (
    apply_renewal,
    failed,
    notify_refused,
    put_back,
    renew_batches,
)
from fencelock._core.lock.renew_request import (
    answer_within,
    in_batches,
    next_ttls,
    refusals,
    renewal_request,
)
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Due
from fencelock._core.port import SlottedPort
from fencelock._core.types import Call, Reply

# When to look again at what is due at a node that is being asked.
BUSY_SECONDS = 0.05


AskBatches = Callable[[SlottedPort, Sequence[Sequence[Hold]]], Awaitable[None]]


async def renew_due_by_slot(port: SlottedPort, kinds: Sequence[list[Hold]]) -> None:
    """Renew leases in the background, each node by a flow of its own; returns at once.

    Replicas that must acknowledge are asked slot by slot.
    """
    ask: AskBatches = _ask if port.replicas is None else renew_batches
    groups: dict[object, list[list[Hold]]] = {}
    for batch in _batches(port, kinds):
        groups.setdefault(port.node_of(batch[0].terms.keys.lock), []).append(batch)
    now = port.now()
    for place, batches in groups.items():
        if not port.spawn_for_node(place, partial(_renew, port, batches, ask)):
            for hold in [hold for batch in batches for hold in batch]:
                put_back(port, [hold], min(now + BUSY_SECONDS, hold.deadline))


def _batches(port: SlottedPort, kinds: Sequence[list[Hold]]) -> Iterator[list[Hold]]:
    """Group holds that one script can renew: of one kind and one slot."""
    for number, kind in enumerate(kinds):
        slots: dict[int, list[Hold]] = {}
        for hold in kind:
            slots.setdefault(port.slot(hold.terms.keys.lock), []).append(hold)
        for holds in slots.values():
            yield from in_batches(number, holds)


async def _renew(port: SlottedPort, batches: Sequence[Sequence[Hold]], ask: AskBatches) -> None:
    """Renew the leases of one node; whatever happens, no hold is dropped from the schedule."""
    every = [hold for batch in batches for hold in batch]
    try:
        live = [[hold for hold in batch if not hold.released] for batch in batches]
        if any(live):
            await ask(port, [batch for batch in live if batch])
    except BaseException:
        put_back(port, [hold for hold in every if hold in port.renewals.under_way], port.now())
        raise
    finally:
        with port.mutex:
            port.renewals.settle(every)


async def _ask(port: SlottedPort, batches: Sequence[Sequence[Hold]]) -> None:
    asked_at = port.now()
    ttls = [next_ttls(batch, asked_at) for batch in batches]
    ends = min(hold.deadline for batch in batches for hold in batch)
    until = min(asked_at + min(map(answer_within, ttls)), ends)
    requests = [renewal_request(batch, each) for batch, each in zip(batches, ttls, strict=True)]
    answers = await port.run_together(requests, until)
    silent: list[Hold] = []
    trouble: Exception | None = None
    for batch, each, answer in zip(batches, ttls, answers, strict=True):
        if isinstance(answer, Exception):
            silent += batch
            trouble = trouble or answer
            continue
        refused = refusals(batch, answer)
        apply_renewal(port, batch, each, asked_at, refused)
        if refused:
            await notify_refused(port, {batch[at]: how for at, how in refused.items()}, until)
    if trouble is not None:
        await failed(port, silent, trouble)


async def heartbeat_by_slot(port: SlottedPort, until: float, waiter: Attempt) -> None:
    """Send the heartbeat of this client's lines at the waiter's node, one script for each slot.

    Raises the error of the waiter's own slot; the waiters of other lines ask later by themselves.
    """
    here, own = port.node_of(waiter.key), port.slot(waiter.key)
    slots: dict[int, list[Due]] = {}
    with port.mutex:
        alive = waiter.terms.alive
        for due in port.lines.due(port.now(), alive, waiter, lambda key: port.node_of(key) == here):
            slots.setdefault(port.slot(due[1][0].key), []).append(due)
    if not slots:
        return
    asked_at = port.now()
    requests = [heartbeat_request(port, dues) for dues in slots.values()]
    answers = await port.run_together(requests, until, waiter)
    for (number, dues), answer in zip(slots.items(), answers, strict=True):
        if not isinstance(answer, Exception):
            learn(port, dues, answer, asked_at)
        elif number == own:
            try:
                raise answer
            finally:
                del answer, answers


async def side_by_side(
    port: SlottedPort, calls: Sequence[Call], until: float
) -> Sequence[Reply | Exception]:
    """Run scripts, all nodes in parallel; return their replies, or the error of each."""
    places: dict[object, list[int]] = {}
    for number, (_, keys, _) in enumerate(calls):
        places.setdefault(port.node_of(keys[0]) or number, []).append(number)
    groups = [[calls[number] for number in numbers] for numbers in places.values()]
    answers = await port.run_on_nodes(groups, until)
    by_number = {
        number: answer
        for numbers, replies in zip(places.values(), answers, strict=True)
        for number, answer in zip(numbers, replies, strict=True)
    }
    return [by_number[number] for number in range(len(calls))]


def one_slot(port: SlottedPort, terms: Sequence[Terms]) -> bool:
    """Return True if one script can touch all these locks."""
    return len({port.slot(each.keys.lock) for each in terms}) <= 1
