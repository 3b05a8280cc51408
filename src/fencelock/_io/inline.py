"""Flows of a blocking thread, run where they are needed: they block and never suspend."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(flow: Coroutine[Any, Any, T]) -> T:
    """Run a flow to its end, in the middle of another one."""
    try:
        flow.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    flow.close()
    raise RuntimeError("a blocking flow suspended")
