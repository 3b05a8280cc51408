"""Ask who holds a lock, and put a question to one server.

Apart from ``show.py``: every client loads this, and few programs show a lock.
"""

from __future__ import annotations

from typing import TypeVar

from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import LockKeys
from fencelock._core.lock.terms import may_linger
from fencelock._core.port import Port
from fencelock._core.retry import command

T = TypeVar("T")


def channel_prefix(key_prefix: str) -> str:
    """Return the prefix of channels: the keys' own, so that one ACL pattern covers both."""
    return "".join("_" if char.isspace() else char for char in key_prefix)


@describes_errors
async def holder_of(port: Port, keys: LockKeys) -> bytes | None:
    """Return the id of the lock's present holder, or None."""
    return await port.value_of(keys)


async def lock_value(port: Port, keys: LockKeys) -> bytes | None:
    """Return the id of the client that holds a lock of one server and uses it, or None."""
    holder: bytes | None = await command(port, (b"GET", keys.lock), keys.lock)
    if holder is not None and may_linger(holder) and await port.is_idle(keys, holder):
        return None
    return holder


async def held_ids(port: Port, keys: LockKeys) -> list[bytes]:
    """Return the hold ids of an explicit owner, in a stable order."""
    return sorted(await command(port, (b"SMEMBERS", keys.grant[4]), keys.lock))
