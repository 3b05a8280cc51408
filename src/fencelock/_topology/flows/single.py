"""The flows of one server, also of the one that Sentinels name.

What only a multi needs is imported when it is first called: a command of the shell pays for each
module when it starts.
"""
# ruff: noqa: PLC0415 - as said above

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fencelock._core.keys import LockKeys
from fencelock._core.lock.acquire import line_up
from fencelock._core.lock.hand_back import hand_back
from fencelock._core.lock.heartbeat import heartbeat
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.inspect import lock_value, on_one, reply_of_one
from fencelock._core.lock.release import clean_up
from fencelock._core.lock.renew import ended, maintain, renew_due, renew_one
from fencelock._core.lock.renew_batch import renew_batch
from fencelock._core.lock.turns import give_back, release_in_background, take
from fencelock._core.port import Flows, Port
from fencelock._core.retry import ask
from fencelock._core.seat import Seat
from fencelock._core.types import Call, Reply
from fencelock.errors import NotAcknowledged


def _one_script(_port: Port, _requests: object) -> bool:
    """Return True: all keys are on one server."""
    return True


async def _renew_all(port: Port, holds: Sequence[Hold], ttl: float | None) -> None:
    """Renew leases one after the other."""
    from fencelock._core.objects.multi_renew import renew_in_turn

    await renew_in_turn(port, holds, ttl)


async def _survey(port: Port, found: Sequence[LockKeys], waiters: int) -> list[list[Any]]:
    """Show locks; few programs do."""
    from fencelock._core.lock.show import survey

    return await survey(port, found, waiters)


async def _side_by_side(
    port: Port, calls: Sequence[Call], until: float
) -> Sequence[Reply | Exception]:
    """Run scripts one after the other."""
    from fencelock._core.objects.multi import one_by_one

    return await one_by_one(port, calls, until)


async def _confirm(_port: Port, _seat: Seat, _deadline: float, _give_up_at: float) -> None:
    """Return at once: no replicas count."""


async def _ask(
    port: Port, _hold: Hold, call: Call, until: float, log: Seat
) -> tuple[Reply, NotAcknowledged | None]:
    """Ask on any connection: no replicas count."""
    return await ask(port, *call, until, asked=log), None


async def _is_idle(port: Port, keys: LockKeys, holder: bytes) -> bool:
    """Ask the holder's client; few programs do."""
    from fencelock._core.lock.idle import is_idle

    return await is_idle(port, keys, holder)


async def _local_rows(port: Port, clients: Mapping[bytes, LockKeys], until: float) -> Sequence[Any]:
    """Ask clients who waits inside them; few programs do."""
    from fencelock._core.lock.idle import local_rows

    return await local_rows(port, clients, until)


def _no_seconds(_port: Port) -> float:
    """Return 0: no replicas count."""
    return 0.0


SINGLE: Final = Flows(
    take=take,
    line_up=line_up,
    heartbeat=heartbeat,
    one_script=_one_script,
    maintain=maintain,
    renew_due=renew_due,
    renew=renew_one,
    renew_all=_renew_all,
    renew_batch=renew_batch,
    ended=ended,
    give_back=give_back,
    release_in_background=release_in_background,
    hand_back=hand_back,
    clean_up=clean_up,
    replies=reply_of_one,
    survey=_survey,
    on_each=on_one,
    holder_of=lock_value,
    is_idle=_is_idle,
    local_rows=_local_rows,
    side_by_side=_side_by_side,
    confirm=_confirm,
    ask_confirmed=_ask,
    confirm_seconds=_no_seconds,
    confirms=False,
)
