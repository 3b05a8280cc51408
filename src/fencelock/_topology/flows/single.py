"""The flows of one server, also of the one that Sentinels name."""

from __future__ import annotations

from typing import Final

from fencelock._core.attempt_log import AttemptLog
from fencelock._core.lock.acquire import line_up, take
from fencelock._core.lock.heartbeat import heartbeat
from fencelock._core.lock.inspect import lock_value, on_one, reply_of_one
from fencelock._core.lock.release import clean_up, give_back, release_one_in_background
from fencelock._core.lock.renew import ended, maintain, renew_due, renew_one
from fencelock._core.lock.renew_batch import renew_batch
from fencelock._core.lock.request import AcquireRequest
from fencelock._core.lock.waiter import Waiter
from fencelock._core.objects.multi import one_by_one
from fencelock._core.objects.multi_renew import renew_in_turn
from fencelock._core.port import Flows, Port
from fencelock._core.retry import ask
from fencelock._core.types import Reply, Request
from fencelock.errors import NotAcknowledged


def _open_in_line(port: Port, waiter: Waiter) -> bool:
    """Give a waiter the connection that it listened on so far."""
    return port.open_now(waiter, listen=True)


def _one_script(_port: Port, _wants: object) -> bool:
    """Return True: all keys are on one server."""
    return True


async def _confirm(_port: Port, _waiter: Waiter, _deadline: float, _give_up_at: float) -> None:
    """Return at once: no replicas count."""


async def _ask(
    port: Port, _want: AcquireRequest, request: Request, until: float, asked: AttemptLog
) -> tuple[Reply, NotAcknowledged | None]:
    """Ask on any connection: no replicas count."""
    return await ask(port, *request, until, asked=asked), None


def _no_seconds(_port: Port) -> float:
    """Return 0: no replicas count."""
    return 0.0


SINGLE: Final = Flows(
    take=take,
    line_up=line_up,
    open_in_line=_open_in_line,
    heartbeat=heartbeat,
    one_script=_one_script,
    maintain=maintain,
    renew_due=renew_due,
    renew=renew_one,
    renew_all=renew_in_turn,
    renew_batch=renew_batch,
    ended=ended,
    give_back=give_back,
    release_in_background=release_one_in_background,
    clean_up=clean_up,
    replies=reply_of_one,
    on_each=on_one,
    holder_of=lock_value,
    side_by_side=one_by_one,
    confirm=_confirm,
    ask_confirmed=_ask,
    confirm_seconds=_no_seconds,
    confirms=False,
)
