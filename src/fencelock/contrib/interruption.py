"""Raise the loss of a lease inside the code that relied on it, in threads and greenlets.

Rules of this file:

- A loss is found by another thread. It strikes the body only: never what comes after it.
- The main thread is struck by a signal, which also ends a system call that blocks. SIGURG does
  nothing by itself, and hardly any program uses it.
- A greenlet of gevent or eventlet is struck by its hub, and leaves what it waits for.
- Any other thread is struck at its next bytecode: Python cannot interrupt a call that blocks there.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from fencelock.errors import LeaseLost


class Means(Protocol):
    """A way to raise an error in the thread or greenlet that made it."""

    def begin(self) -> None:
        """Note that the body begins."""

    def strike(self, error: LeaseLost) -> None:
        """Raise the error in the body; called by another thread."""

    def end(self) -> None:
        """Note that the body has ended: nothing is raised from here on."""


class _BySignal:
    def __init__(self) -> None:
        self._live = False
        self._error: LeaseLost | None = None
        self._before: Any = None

    @classmethod
    def works(cls) -> bool:
        """Return True in the main thread, if the signal is not used for something else."""
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or not hasattr(signal, "SIGURG"):
            return False
        now = signal.getsignal(signal.SIGURG)
        ours = isinstance(getattr(now, "__self__", None), cls)
        return ours or now in {signal.SIG_DFL, signal.SIG_IGN}

    def begin(self) -> None:
        self._live = True
        self._before = signal.signal(signal.SIGURG, self._handle)

    def strike(self, error: LeaseLost) -> None:
        self._error = error
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGURG)

    def _handle(self, number: int, frame: Any) -> None:
        if self._live and self._error is not None:
            self._live = False
            try:
                raise self._error
            finally:
                del self
        if callable(self._before):  # meant for a task around this one
            self._before(number, frame)

    def end(self) -> None:
        self._live = False
        signal.signal(signal.SIGURG, self._before)


class _InGreenlet:
    def __init__(
        self, greenlet: Any, soon: Callable[[Callable[[LeaseLost], None], LeaseLost], Any]
    ) -> None:
        self._greenlet = greenlet
        self._soon = soon  # calls something in the hub
        self._live = False

    @classmethod
    def here(cls) -> Means | None:
        """Return the means of a program that gevent or eventlet has patched."""
        gevent: Any = sys.modules.get("gevent.monkey")
        if gevent is not None and gevent.is_module_patched("threading"):
            gevent = sys.modules["gevent"]
            return cls(gevent.getcurrent(), gevent.get_hub().loop.run_callback_threadsafe)
        eventlet: Any = sys.modules.get("eventlet.patcher")
        if eventlet is not None and eventlet.is_monkey_patched("thread"):
            eventlet = sys.modules["eventlet"]
            soon = partial(eventlet.hubs.get_hub().schedule_call_global, 0)
            return cls(eventlet.getcurrent(), soon)
        return None

    def begin(self) -> None:
        self._live = True

    def strike(self, error: LeaseLost) -> None:
        self._soon(self._throw, error)

    def _throw(self, error: LeaseLost) -> None:
        if self._live:
            self._live = False
            self._greenlet.throw(error)

    def end(self) -> None:
        self._live = False


class _ByInterpreter:
    def __init__(self) -> None:
        self._ident = ctypes.c_ulong(threading.get_ident())
        self._struck = False

    def begin(self) -> None:
        pass

    def strike(self, error: LeaseLost) -> None:
        # Python raises a class, which it makes an error of by itself.
        def again(own: LeaseLost) -> None:
            own.args = error.args
            own.__dict__.update(error.__dict__)

        kind = type(type(error).__name__, (type(error),), {"__init__": again})
        self._struck = True
        ctypes.pythonapi.PyThreadState_SetAsyncExc(self._ident, ctypes.py_object(kind))

    def end(self) -> None:
        if self._struck:  # what has not come yet must not come later
            ctypes.pythonapi.PyThreadState_SetAsyncExc(self._ident, None)


def _means() -> Means:
    return _InGreenlet.here() or (_BySignal() if _BySignal.works() else _ByInterpreter())


class LossInterrupt:
    """While it is entered, a loss is raised in the thread or greenlet that entered it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._armed = False
        self._means = _means()
        self.error: LeaseLost | None = None

    def lost(self, error: LeaseLost) -> None:
        """Take note of the loss, and raise it in the body."""
        with self._guard:
            self.error = error
            if self._armed:
                self._means.strike(error)

    def __enter__(self) -> None:
        """Begin; raise the loss if it has come already."""
        self._means.begin()
        with self._guard:
            self._armed = True
            error = self.error
        if error is not None:
            self._disarm()
            try:
                raise error
            finally:
                del error, self

    def __exit__(self, *_: object) -> None:
        """End. A loss that strikes at this moment is raised here, within the lock."""
        try:
            self._disarm()
        except LeaseLost:
            self._disarm()
            raise

    def _disarm(self) -> None:
        with self._guard:
            self._armed = False
        self._means.end()
