"""What a pushed message means: a grant, the end of a place or lease, or a state that came about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencelock._core.acquire import late_grant
from fencelock._core.port import Port
from fencelock._core.renew import lose
from fencelock._core.waiters import Waiter
from fencelock._core.watch import signalled


def dispatch(
    port: Port, message: Sequence[bytes], find: Callable[[bytes], Waiter | None]
) -> Waiter | None:
    """Take a push; return the waiter that it is for, for the port to wake.

    ``find`` returns the waiter of an id, or None when it does not wait (any more).
    """
    if message[0] != b"message":
        return None
    kind, _, payload = message[2].partition(b" ")
    if kind == b"revoked":
        _revoked(port, payload)
    if kind == b"signal":
        signalled(port, payload)
    if kind == b"again":
        return _again(find(payload))
    if kind != b"granted":
        return None
    who, fence, granted_us, lease_ms = payload.split()
    waiter = find(who)
    if waiter is None:
        late_grant(port, who)
    else:
        waiter.hear(int(fence), int(granted_us), int(lease_ms))
    return waiter


def _again(waiter: Waiter | None) -> Waiter | None:
    """Have a waiter ask anew, whose place in line is gone."""
    if waiter is not None:
        waiter.lose_place()
    return waiter


def _revoked(port: Port, payload: bytes) -> None:
    """Tell the holds that an operator took away."""
    holder, _, reason = payload.partition(b" ")
    with port.mutex():
        hit = [hold for hold in port.book.minded() if hold.want.holder == holder]
    for hold in hit:
        lose(port, hold, "revoked", port.now(), reason.decode())
