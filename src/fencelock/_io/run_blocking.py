"""Run a flow on the thread that calls: over blocking ports it never suspends."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from fencelock._runtime.mutex import catch_up, inside, put_off, put_off_work, refuse

T = TypeVar("T")


def run_blocking(flow: Coroutine[Any, Any, T]) -> T:
    """Run a flow to its end on this thread; its port blocks, so it never suspends.

    RuntimeError in a finalizer or signal handler that interrupted this thread inside the mutex.
    """
    if inside():
        flow.close()
        raise refuse()
    return _run(flow)


def _run(flow: Coroutine[Any, Any, T]) -> T:
    if put_off_work:
        catch_up()
    events = sys.modules.get("asyncio.events")  # it is not imported for that
    if events is not None and events._get_running_loop() is not None:  # noqa: SLF001 - its public twin raises when there is none
        from fencelock._io import loop_warning  # noqa: PLC0415 - few programs block a loop

        loop_warning.warn(flow)
    try:
        flow.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    flow.close()
    raise RuntimeError("a blocking port suspended")


def run_release(_port: object, handle: object, flow: Coroutine[Any, Any, T]) -> T | None:
    """Run a flow whose caller can go on without its result: if necessary, after the unlock.

    Its twin for asyncio does it in the background of the port.
    None when it was put off; then its errors are logged. The handle is kept until then.
    """
    if not inside():
        return _run(flow)
    put_off(partial(_release_late, handle, flow))
    return None


def _release_late(handle: object, flow: Coroutine[Any, Any, object]) -> None:
    """Run a release that was put off."""
    run_blocking(flow)
    del handle  # not before: it would report that it was dropped while it held the lock
