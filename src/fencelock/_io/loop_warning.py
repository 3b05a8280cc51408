"""Notices a blocking call inside a running event loop: it stops every task of that loop."""

from __future__ import annotations

import warnings
from collections.abc import Coroutine
from typing import Any

from fencelock._runtime.hints import calling_level

# Flows that may wait for other clients; the rest take one round trip.
WAITING = frozenset(
    {"acquire", "acquire_all", "start", "passes", "next_change", "_passed", "_crossed", "_waited"}
)


def warn(flow: Coroutine[Any, Any, Any]) -> None:
    """Warn of a flow that may wait, at the line that called the library; nothing was sent yet."""
    if getattr(flow, "__name__", "") not in WAITING:
        return
    try:
        warnings.warn(
            "a blocking call of fencelock.Client inside a running event loop blocks all tasks"
            " of the loop until it ends: use fencelock.AsyncClient there, or asyncio.to_thread",
            RuntimeWarning,
            stacklevel=calling_level(),
        )
    except RuntimeWarning:  # it is an error here
        flow.close()
        raise
