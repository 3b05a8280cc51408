"""Send the heartbeat of this client's waiters, and learn their places in line (I6, I7).

One waiter asks for all of the client, with one command, in a Cluster one for each slot of its node;
``Lines.due`` decides which lines it asks about.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.waiting import Due, Line
from fencelock._core.port import Port
from fencelock._core.types import Call, Reply


async def heartbeat(port: Port, until: float, waiter: Attempt) -> None:
    """Send the heartbeat of this client's lines at the waiter's node, one script for each slot.

    Raises the error of the waiter's own slot; the waiters of other lines ask later by themselves.
    """
    here = port.node_of(waiter.key)
    with port.mutex:
        alive = waiter.terms.alive
        due = port.lines.due(port.now(), alive, waiter, lambda key: port.node_of(key) == here)
    (own,) = port.by_slot([waiter.key], bytes)
    slots = port.by_slot(due, lambda each: each[1][0].key)
    if not slots:
        return
    asked_at = port.now()
    requests = [_request(port, dues) for dues in slots.values()]
    answers = await port.run_together(requests, until, waiter)
    for (number, dues), answer in zip(slots.items(), answers, strict=True):
        if not isinstance(answer, Exception):
            for (line, waiters), told in zip(dues, answer[1:], strict=True):
                _learn(port, line, waiters, told, asked_at)
        elif number == own:
            try:
                raise answer
            finally:
                del answer, answers


def _request(port: Port, due: Sequence[Due]) -> Call:
    """Return the request that is these waiters' heartbeat, and asks for their places."""
    keys: list[bytes] = []
    args: list[bytes | int] = [port.client_channel]
    for _, waiters in due:
        keys += waiters[0].keys.grant
        args.append(len(waiters))
        args += [each.terms.entry(each, each.channel) for each in waiters]
    return due[0][1][0].terms.alive, keys, args


def _learn(port: Port, line: Line, waiters: list[Attempt], told: Reply, asked_at: float) -> None:
    """Make waiters ask again that are not in line, or were granted without being notified.

    Asking again brings the full lease; of the lease that was found, little may be left.
    """
    holder, _, pttl_ms, foreign, positions = told
    front = min((place for place in positions if place >= 0), default=0)
    line.postpone(
        asked_at,
        pttl_ms,
        front,
        foreign=bool(foreign),
        jitter=port.jitter(),
        crowd=port.lines.foreign,
    )
    for waiter, position in zip(waiters, positions, strict=True):
        if not waiter.news and (position < 0 or holder == waiter.holder_id):
            waiter.lose_place()
            port.wake(waiter)
