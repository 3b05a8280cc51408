# Generated from aio/event_latch.py by generate_blocking.py: change that, and run the script.
"""Event and Latch, for threads."""

from __future__ import annotations

from fencelock import options
from fencelock._handles.event_latch import BaseEvent, BaseLatch
from fencelock._io.threads import run_blocking


class Event(BaseEvent):
    """An event, as ``threading.Event`` but for all processes of all hosts.

    Made by ``Client.event``. It is clear until a client sets it. An event that is not used for
    ``idle_ttl`` is forgotten: it is clear again. Waiting is use. It has no owner and no lease.
    """

    __slots__ = ()

    def is_set(self) -> bool:
        """Ask the server whether the event is set now.

        Raises:
            ServerError, OutcomeUnknown: the server cannot tell, or no answer came.
        """
        return run_blocking(self._changed(self._port, b"look"))

    def set(self) -> None:
        """Set the event: all waiters go on, and later ones do not wait until it is cleared.

        Costs one command, and one message for each connection with waiters.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer came within ``server_timeout``.
            ServerError: the server refuses, or the name holds something else.
        """
        run_blocking(self._changed(self._port, b"set"))

    def clear(self) -> None:
        """Clear the event: later waiters wait for the next ``set``.

        Raises:
            ServerError, OutcomeUnknown: as ``set``.
        """
        run_blocking(self._changed(self._port, b"clear"))

    def delete(self) -> None:
        """Delete the event, as if it had never been used: it is clear. Waiters continue to wait.

        Raises:
            ServerError, OutcomeUnknown: as ``set``.
        """
        run_blocking(self._changed(self._port, b"delete"))

    def wait(self, timeout: options.Seconds | None = None) -> bool:
        """Wait until the event is set; True at once when it is, False when it was not in time.

        Waits for ever, or for ``timeout`` seconds; 0 checks once. A waiter returns True when
        it is set, even if it is cleared at once. A lost message costs up to 2 s. Returns by the
        timeout plus 100 ms whatever the server does, and leaves nothing behind.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer within the timeout or ``server_timeout``.
            ServerError: the server refuses, or the name holds something else.
            TypeError, ValueError, OverflowError: an invalid timeout.
        """
        return run_blocking(self._passed(self._port, timeout))


class Latch(BaseLatch):
    """A latch: it opens when it was counted down to 0, and stays open.

    Made by ``Client.latch``. The first client to use the name, even by waiting, sets its
    count: a latch that was never counted down is closed. One that is not used for ``idle_ttl`` is
    forgotten, open or not: the next use starts afresh. Waiting is use. No owner, no lease.
    """

    __slots__ = ()

    def count(self) -> int:
        """Ask the server how much is left to count down; 0 when the latch is open.

        Raises:
            ServerError, OutcomeUnknown: the server cannot tell, or no answer came.
        """
        return run_blocking(self._changed(self._port, b"look"))

    def count_down(self, n: int = 1) -> int:
        """Count down by ``n``, to 0 at most; return how much is left. At 0 all waiters go on.

        A request that is repeated because its answer was lost counts once.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer came within ``server_timeout``; when it is
                unknown, it may have been counted.
            ServerError: the server refuses; the name holds something else, or a latch with
                another count.
            TypeError, ValueError: ``n`` is not a whole number of at least 1.
        """
        return run_blocking(self._changed(self._port, b"count_down", options.count("n", n)))

    def reset(self) -> None:
        """Close the latch again, with its full count. Waiters continue to wait.

        Raises:
            ServerError, OutcomeUnknown: as ``count_down``.
        """
        run_blocking(self._changed(self._port, b"reset"))

    def delete(self) -> None:
        """Delete the latch: the next use starts afresh, with any count. Waiters continue to wait.

        Raises:
            ServerError, OutcomeUnknown: as ``count_down``, but for another count.
        """
        run_blocking(self._changed(self._port, b"delete"))

    def wait(self, timeout: options.Seconds | None = None) -> bool:
        """Wait until the latch is open; True at once when it is, False when it was not in time.

        Waits for ever, or for ``timeout`` seconds; 0 checks once. A lost message costs up to 2 s.
        Returns by the timeout plus 100 ms whatever the server does, and leaves nothing behind.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer within the timeout or ``server_timeout``.
            ServerError: as ``count_down``.
            TypeError, ValueError, OverflowError: an invalid timeout.
        """
        return run_blocking(self._passed(self._port, timeout))
