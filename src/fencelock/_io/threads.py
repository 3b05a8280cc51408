"""Run flows on the thread that calls, or beside it: over blocking ports they never suspend."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Coroutine
from functools import partial

from fencelock._runtime import mutex as mutexes
from fencelock._runtime.hints import calling_level
from fencelock._runtime.log import log
from fencelock._runtime.mutex import catch_up, put_off, put_off_work, refuse, started
from fencelock._runtime.process import mark, notice
from fencelock._runtime.typed import Any, TypeVar

T = TypeVar("T")

# Flows that may wait for other clients; the rest take one round trip.
WAITING = frozenset(
    {"acquire", "acquire_all", "next_change", "start", "wait_at", "wait_until_open"}
)


def is_free() -> bool:
    """Return True if a call may block here, and nothing else is to be done first."""
    return not (not mark[0] or put_off_work or mutexes.owned()) and _running_loop() is None


def _look_for_asyncio() -> object:
    """Return the loop that runs here, if any; from the import of asyncio on, it is asked itself."""
    global _running_loop  # noqa: PLW0603 - until another function takes its place
    events = sys.modules.get("asyncio.events")  # it is not imported for that
    asked = getattr(events, "_get_running_loop", None)  # its public twin raises when there is none
    if asked is None:  # also while another thread imports it
        return None
    _running_loop = asked
    return _running_loop()


_running_loop: Callable[[], object] = _look_for_asyncio


def run_blocking(flow: Coroutine[Any, Any, T], releases: object = None, _port: object = None) -> T:
    """Run a flow to its end on this thread; its port blocks, so it never suspends.

    A finalizer or signal handler may have interrupted this thread inside the mutex. There the
    release of a handle, which it ``releases``, is put off until the unlock, and returns None; its
    errors are logged, and the handle is kept until then. Other flows raise RuntimeError.
    """
    if not is_free():
        if not mark[0]:
            notice()
        if mutexes.owned():
            if releases is None:
                flow.close()
                raise refuse()
            put_off(partial(_release_late, releases, flow))
            return None  # type: ignore[return-value]  # as said above
        if put_off_work:
            catch_up()
        if not (put_off_work or is_free()):
            _warn_of_loop(flow)
    return run_inline(flow)


def run_inline(flow: Coroutine[Any, Any, T]) -> T:
    """Run a flow to its end, where it is known that it may block: in the middle of another one."""
    try:
        flow.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    flow.close()
    raise RuntimeError("a blocking flow suspended")


run_release = run_blocking  # tasks.py has another, whose port does in the background what is late


def _release_late(handle: object, flow: Coroutine[Any, Any, object]) -> None:
    """Run a release that was put off."""
    run_blocking(flow)
    del handle  # not before: it would report that it was dropped while it held the lock


def _warn_of_loop(flow: Coroutine[Any, Any, Any]) -> None:
    """Warn of a flow that may wait and stops a running loop, at the line that called the library.

    Nothing was sent yet.
    """
    if getattr(flow, "__name__", "") not in WAITING:
        return
    try:
        warnings.warn(
            "a blocking call of fencelock.Client inside a running event loop blocks all tasks"
            " of the loop until it ends: use fencelock.AsyncClient there",
            RuntimeWarning,
            stacklevel=calling_level(),
        )
    except RuntimeWarning:  # it is an error here
        flow.close()
        raise


def later(_port: object, seconds: float, call: Callable[[], None]) -> bool:
    """Call a function after so many seconds; return False if no thread can be started."""
    timer = threading.Timer(seconds, call)
    timer.name = "fencelock-later"
    return started(timer) is None


class RepeatingThread:
    """Runs a blocking flow every ``seconds`` in a thread that ends with the block."""

    def __init__(self, flow: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
        self._flow = flow
        self._seconds = seconds
        self._ended = threading.Event()

    async def __aenter__(self) -> None:
        """Start the thread; if none can be started, the block runs without it."""
        thread = threading.Thread(target=self._repeat, name="fencelock-proof")
        trouble = started(thread)
        if trouble is not None:
            log.warning(
                "no thread could be started to give this party's proof of life: %s", trouble
            )

    async def __aexit__(self, *_: object) -> None:
        """Have the thread end; it may still be at its last run."""
        self._ended.set()

    def _repeat(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                run_blocking(self._flow())
            except Exception:  # of the machine, perhaps: it tries again (I16)
                log.exception("a proof of life failed")
