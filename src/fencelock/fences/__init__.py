"""Guards that let a database refuse the writes of an older holder: fencing tokens as code.

``FenceGuard`` and ``AsyncFenceGuard`` are for SQL databases, ``RedisFenceGuard`` and
``AsyncRedisFenceGuard`` for transactions of Redis or Valkey, ``BucketFenceGuard`` for objects in
an S3-compatible store. None of them imports a driver: the connection that is passed in tells which
one it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencelock.errors import Stale
from fencelock.fences.token import FencingToken

if TYPE_CHECKING:
    from fencelock.fences.bucket_guard import BucketFenceGuard
    from fencelock.fences.guard import AsyncFenceGuard, FenceGuard
    from fencelock.fences.redis_guard import AsyncRedisFenceGuard, RedisFenceGuard

__all__ = [
    "AsyncFenceGuard",
    "AsyncRedisFenceGuard",
    "BucketFenceGuard",
    "FenceGuard",
    "FencingToken",
    "RedisFenceGuard",
    "Stale",
]

_MODULES = {
    "AsyncFenceGuard": "fencelock.fences.guard",
    "AsyncRedisFenceGuard": "fencelock.fences.redis_guard",
    "BucketFenceGuard": "fencelock.fences.bucket_guard",
    "FenceGuard": "fencelock.fences.guard",
    "RedisFenceGuard": "fencelock.fences.redis_guard",
}


def __getattr__(name: str) -> Any:
    """Import a guard on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'fencelock.fences' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only until each was used once

    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    """List the public names, including what is not imported yet."""
    return sorted({*globals(), *__all__})
