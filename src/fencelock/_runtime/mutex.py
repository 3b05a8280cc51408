"""The mutex of all shared tables, and deferred work for code that interrupts a thread inside it.

Python runs finalizers and signal handlers between any two instructions, so also while a thread
changes a table. A call that they make there cannot wait for the mutex, because their own thread
would have to unlock it. Nor can it run while the table is half changed.

Rules of this file:

- One mutex serves all clients: with two, the finalizers of two threads could wait for each other.
- It is reentrant only so that ``inside`` can answer; no code relies on entering it twice.
- Code inside it never waits for another thread, starts one, logs, or calls user code.
- It never returns the result of a call from inside: between the end of that call and the unlock, an
  interrupt would leave the mutex locked for good, because no handler covers that instant.
- A release or a clean-up requested inside runs in another thread, which waits for the unlock. Any
  other call is refused with an error that says why: its caller needs an answer, and none could
  come.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from fencelock._runtime.log import log
from fencelock._runtime.process import in_copies, mark, notice
from fencelock._runtime.typed import Any

Work = Callable[..., object]

_lock = threading.RLock()
# As ``inside``, without a call of Python: each call of the library asks. Of the module, never by
# name: a child process has another one.
owned: Callable[[], bool] = _lock._is_owned  # type: ignore[attr-defined]  # noqa: SLF001 - as threading.Condition
# What waits for the unlock, or for room: functions with their arguments. Such a tuple, unlike a
# ``partial``, needs no memory that Python has not at hand.
put_off_work: deque[tuple[Any, ...]] = deque()


_QUEUES = (put_off_work,)


def mutex() -> threading.RLock:
    """Return the mutex of this process; a child process has another one."""
    if not mark[0]:
        notice()
    return _lock


def inside() -> bool:
    """Return True if this thread is inside the mutex: then the caller has interrupted it there."""
    if not mark[0]:
        notice()
    return owned()


def refuse() -> RuntimeError:
    """Return the error for a call that needs an answer before the interrupted thread can go on."""
    return RuntimeError(
        "a signal handler or finalizer called fencelock while its own thread was inside it, so"
        " the call could never end: only releases are possible there. Set a flag in the handler"
        " and make the call outside"
    )


def put_off(work: Work, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
    """Have work done after the unlock, in a new thread."""
    put_off_work.append((work,))
    if not _ending():  # a generator is closed as the interpreter is torn down: no thread runs then
        _catch_up_soon()


def undo(port: Any, work: Work, *of: Any) -> None:
    """Undo now, or in another thread what does not end here; it may be begun twice.

    Memory or frames of the stack may have run out here, or a second Ctrl-C may strike. ``work`` is
    no bound method, as that needs memory.
    """
    try:
        work(*of)
    except BaseException:
        put_off_work.append((_at_home, port, work, of))
        _catch_up_soon()
        raise


def _at_home(port: Any, undo: Work, of: tuple[Any, ...]) -> None:
    port.at_home(partial(undo, *of))


def _catch_up_soon() -> None:
    # Not ``threading.Thread``: its start waits for the new thread, which may need the mutex.
    with contextlib.suppress(RuntimeError, MemoryError):  # the next call of the library does it
        _thread.start_new_thread(catch_up, (True,))


def outside(work: Work) -> None:
    """Do a finalizer's work now, or after the unlock. It may log, which is forbidden inside."""
    if inside():
        put_off(work)
    else:
        work()


def catch_up(in_own_thread: bool = False) -> None:  # noqa: FBT001, FBT002 - a new thread has no keywords
    """Do the work that was put off; log its errors, because the caller has gone on.

    Raises RecursionError when this thread has too little room for it: then another one does it.
    What no memory is left for is done later.
    """
    while put_off_work:
        taken: list[tuple[Any, ...]] = []
        try:
            try:
                taken.extend(map(deque.popleft, _QUEUES))  # in one step, for what may interrupt it
            except IndexError:  # another thread was faster
                return
            taken[0][0](*taken[0][1:])
        except RecursionError as error:
            if in_own_thread:
                log.warning("what was put off recurses without end: %s", error)
                continue
            put_off_work.extendleft(taken)
            _catch_up_soon()
            raise
        except MemoryError:
            put_off_work.extend(taken)
            if not in_own_thread:
                return
            time.sleep(0.1)  # and then tries again
        except Exception as error:  # noqa: BLE001 - the next one must be done all the same
            log.warning("a release in a finalizer or signal handler failed: %s", error)
        except BaseException:  # Ctrl-C: by the next call, or the thread that is due
            if taken and taken[0][0] is _at_home:  # all else undoes what it began
                put_off_work.extendleft(taken)
            raise


def _owned_or_lost(_ending: Callable[[], bool] = sys.is_finalizing) -> bool:
    """As ``owned``, while the interpreter ends: True also if a thread that ended has the mutex.

    Then nothing may wait for it. Threads end wherever they are once the interpreter is torn down.
    """
    if not _ending() or _lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - as above
        return _lock._is_owned()  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001 - as above
    free = _lock.acquire(blocking=False)
    if free:
        _lock.release()
    return not free


def at_end() -> None:
    """Have the calls that come yet look whether the mutex is lost."""
    global owned  # noqa: PLW0603 - as below
    owned = _owned_or_lost


def started(
    thread: threading.Thread, _ending: Callable[[], bool] = sys.is_finalizing
) -> RuntimeError | None:
    """Start a thread that ends with the process; return the error if that fails.

    At a limit, in an isolated interpreter, or at the end of the interpreter: while that is torn
    down, the start would wait for ever for a thread that never runs.

    ``threading`` waits for the new thread with a lock of its own. A signal's exception raised there
    may turn into a RuntimeError of that lock; then the original exception is raised.
    """
    if _ending():
        return RuntimeError("the interpreter ends")
    before = sys.exception()
    try:
        thread.daemon = True
        thread.start()
    except RuntimeError as error:
        strike = error.__context__
        if strike is None or strike is before or isinstance(strike, Exception):
            return error
        try:
            raise strike from None
        finally:
            del strike
    return None


class OneShotLatch:
    """A latch that threads wait for; it opens once.

    ``threading.Event`` waits inside a lock of its own: a finalizer that interrupts the wait, and
    then sets the same event or waits for it, would wait for ever.
    """

    def __init__(self) -> None:
        self._shut = threading.Lock()
        self._shut.acquire()
        self.is_open: bool = False

    def open(self) -> None:
        """Wake all waiters; later ones do not wait."""
        self.is_open = True
        with contextlib.suppress(RuntimeError):  # it is open, or about to be opened again
            self._shut.release()

    def wait(self, seconds: float) -> bool:
        """Wait for at most ``seconds``; return True if it is open."""
        if not self.is_open and self._shut.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
            self.open()  # for the next waiter
        return self.is_open


@in_copies
def in_child() -> None:
    """Start afresh in a child process: a thread that it does not have may have been inside."""
    global _lock, owned  # noqa: PLW0603 - one mutex per process
    _lock = threading.RLock()
    owned = _lock._is_owned  # type: ignore[attr-defined]  # noqa: SLF001 - as above
    put_off_work.clear()
