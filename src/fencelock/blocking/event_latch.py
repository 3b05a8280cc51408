# Generated from aio/event_latch.py by generate_blocking.py: change that, and run the script.
"""Event and Latch, for threads."""

from __future__ import annotations

from fencelock import options
from fencelock._core.objects.event_latch import change, wait_until_open
from fencelock._core.objects.state_wait import StateSpec
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.threads import run_blocking
from fencelock._runtime.hints import made_by_clients, unnamed
from fencelock._runtime.process import ProcessBound


@unnamed
class Signal(ProcessBound):
    """What ``Event`` and ``Latch`` share."""

    __slots__ = ("__weakref__", "_answered", "_port", "_seen", "_spec")

    @made_by_clients
    def __init__(self, port: BlockingPort, spec: StateSpec) -> None:
        self._port = port
        self._spec = spec
        self._seen: int = spec.of  # what is left of a latch; of an event, whether it is set
        self._answered: list[bytes] = []  # requests that the server may forget

    def _changed(self, what: bytes, by: int = 0) -> int:
        self._seen = now = run_blocking(change(self._port, self._spec, what, by, self._answered))
        return now


class Event(Signal):
    """An event, as ``threading.Event`` but for all processes of all hosts.

    Made by ``Client.event``. It is clear until a client sets it. An event that is not used for
    ``idle_ttl`` is forgotten: it is clear again. Waiting is use. It has no owner and no lease.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """Return the event's name, without the prefix."""
        return self._spec.keys.name

    def is_set(self) -> bool:
        """Ask the server whether the event is set now.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        return bool(self._changed(b"look"))

    def set(self) -> None:
        """Set the event: all waiters go on, and later ones do not wait until it is cleared.

        Costs one command, and one message for each connection with waiters.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer came within ``server_timeout``.
            ServerError: the server refuses, or the name holds something else.
        """
        self._changed(b"set")

    def clear(self) -> None:
        """Clear the event: later waiters wait for the next ``set``.

        Raises:
            ServerError, OutcomeUnknown: as ``set``.
        """
        self._changed(b"clear")

    def delete(self) -> None:
        """Delete the event, as if it had never been used: it is clear. Waiters continue to wait.

        Raises:
            ServerError, OutcomeUnknown: as ``set``.
        """
        self._changed(b"delete")

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
        span = options.wait_timeout(timeout)
        self._seen = opened = run_blocking(wait_until_open(self._port, self._spec, span))
        return opened

    def __repr__(self) -> str:
        """Show the name and the state as this handle saw it last."""
        kind, state = type(self).__name__, "set" if self._seen else "unset"
        return f"<fencelock.{kind} at {id(self):#x} name={self.name!r}: {state}>"


class Latch(Signal):
    """A latch: it opens when it was counted down to 0, and stays open.

    Made by ``Client.latch``. The first client to use the name, even by waiting, sets its
    count: a latch that was never counted down is closed. One that is not used for ``idle_ttl`` is
    forgotten, open or not: the next use starts afresh. Waiting is use. No owner, no lease.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """Return the latch's name, without the prefix."""
        return self._spec.keys.name

    def count(self) -> int:
        """Ask the server how much is left to count down; 0 when the latch is open.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        return self._changed(b"look")

    def count_down(self, n: int = 1) -> int:
        """Count down by ``n``, to 0 at most; return how much is left. At 0 all waiters go on.

        A request that is repeated because its answer was lost counts once, however late: the
        server remembers it for a minute and twice the client's ``server_timeout``.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer came within ``server_timeout``; when it is
                unknown, it may have been counted.
            ServerError: the server refuses; the name holds something else, or a latch with
                another count.
            TypeError, ValueError: ``n`` is not a whole number of at least 1.
        """
        return self._changed(b"count_down", options.count("n", n))

    def reset(self) -> None:
        """Close the latch again, with its full count. Waiters continue to wait.

        Raises:
            ServerError, OutcomeUnknown: as ``count_down``.
        """
        self._changed(b"reset")

    def delete(self) -> None:
        """Delete the latch: the next use starts afresh, with any count. Waiters continue to wait.

        Raises:
            ServerError, OutcomeUnknown: as ``count_down``, but for another count.
        """
        self._changed(b"delete")

    def wait(self, timeout: options.Seconds | None = None) -> bool:
        """Wait until the latch is open; True at once when it is, False when it was not in time.

        Waits for ever, or for ``timeout`` seconds; 0 checks once. A lost message costs up to 2 s.
        Returns by the timeout plus 100 ms whatever the server does, and leaves nothing behind.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer within the timeout or ``server_timeout``.
            ServerError: as ``count_down``.
            TypeError, ValueError, OverflowError: an invalid timeout.
        """
        span = options.wait_timeout(timeout)
        opened = run_blocking(wait_until_open(self._port, self._spec, span))
        self._seen = 0 if opened else self._seen
        return opened

    def __repr__(self) -> str:
        """Show the name and the count as this handle saw it last."""
        kind, left = type(self).__name__, f"{self._seen}/{self._spec.of}"
        return f"<fencelock.{kind} at {id(self):#x} name={self.name!r}: left={left}>"
