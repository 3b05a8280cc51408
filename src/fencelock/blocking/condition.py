"""Condition, for threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import current_thread
from typing import TypeVar

from fencelock import options
from fencelock._core.objects.condition import ALL
from fencelock._handles.condition import BaseCondition
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.run_blocking import run_blocking
from fencelock._runtime.clock import now
from fencelock._runtime.process import thread_unit
from fencelock.blocking.lease import Lease
from fencelock.blocking.lock import Lock, RLock

T = TypeVar("T")


class Condition(BaseCondition):
    """A condition variable, as ``threading.Condition`` but for all processes of all hosts.

    Made by ``Client.condition`` over a lock. Its methods need the lock to be held through that
    lock's handle. After a wait the lock is held with a new lease and a new fence: ``lock.lease`` is
    that lease. All handles with the same lock and the same ``name`` are one condition.
    """

    __slots__ = ()

    _reentrant = RLock
    lock: Lock | RLock

    @property
    def _port(self) -> BlockingPort:
        return self.lock.__shared__()[0]

    def acquire(self, blocking: bool = True, timeout: options.Seconds = -1) -> bool:
        """Acquire the lock, as ``Lock.acquire`` does, in the same time and with its errors."""
        return self.lock.acquire(blocking, timeout)

    def release(self) -> int | None:
        """Release the lock, as ``Lock.release`` does, and with its errors."""
        return self.lock.release()

    def locked(self) -> bool:
        """Ask the server whether any client holds the lock now, as ``Lock.locked`` does."""
        return self.lock.locked()

    def wait(self, timeout: options.Seconds | None = None) -> bool:
        """Release the lock, wait to be notified, and acquire the lock again; True when notified.

        False when no notification came within ``timeout`` seconds; without one it waits for ever.
        Then it holds the lock again, with all entries of an ``RLock``, however long that
        takes: the timeout does not limit it. After a server restart that lost data it
        may return True without a notification: use ``wait_for``, or a loop.

        After Ctrl-C it acquires the lock again first; a second Ctrl-C ends that. A notification
        that this thread had received goes to another waiter.

        Raises:
            NotHeld: the lock is not held through its handle.
            LeaseLost: the lease had ended before; it did not wait, and nothing is held.
            ServerUnreachable, OutcomeUnknown: no answer within ``server_timeout``; nothing is held.
            ServerError: the server refuses; nothing is held.
            TypeError, ValueError, OverflowError: an invalid timeout.
        """
        flow = self._waited(self._port, thread_unit(), current_thread(), timeout)
        return run_blocking(flow)

    def wait_for(self, predicate: Callable[[], T], timeout: options.Seconds | None = None) -> T:
        """Wait until ``predicate`` is true, and return what it returned last.

        It is called with the lock held, at once and after each notification. A false value is
        returned when it was not true within ``timeout`` seconds.

        Raises:
            NotHeld, LeaseLost, ServerError, OutcomeUnknown: as ``wait``.
            TypeError, ValueError, OverflowError: an invalid timeout.
        """
        seconds = options.wait_timeout(timeout)
        end = None if seconds is None else now() + seconds
        while not (result := predicate()):
            left = None if end is None else end - now()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        """Wake the first ``n`` waiting threads: they get the lock one after the other.

        The lock stays held until it is released. Dead waiters are skipped; without waiters nothing
        happens.

        Raises:
            NotHeld: the lock is not held through its handle.
            LeaseLost: the lease has ended.
            ServerUnreachable, OutcomeUnknown: no answer came within ``server_timeout``.
            TypeError, ValueError: ``n`` is not a whole number of at least 1.
        """
        run_blocking(self._notified(self._port, thread_unit(), options.count("n", n)))

    def notify_all(self) -> None:
        """Wake all waiting threads: they get the lock one after the other.

        Raises:
            NotHeld, LeaseLost, ServerError, OutcomeUnknown: as ``notify``.
        """
        run_blocking(self._notified(self._port, thread_unit(), ALL))

    def __enter__(self) -> Lease:
        """Acquire the lock, as ``with lock``, and return the lease."""
        return self.lock.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Release the lock, as the end of ``with lock``."""
        self.lock.__exit__(kind, error, trace)
