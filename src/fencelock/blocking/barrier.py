# Generated from aio/barrier.py by generate_blocking.py: change that, and run the script.
"""Barrier, for threads."""

from __future__ import annotations

import threading

from fencelock import errors, options
from fencelock._handles.barrier import BaseBarrier
from fencelock._io.threads import run_blocking
from fencelock.blocking.caller import ASYNCHRONOUS


class BarrierBroken(errors.BarrierBroken, threading.BrokenBarrierError):
    """As ``fencelock.BarrierBroken``, and as ``threading``'s."""


class Barrier(BaseBarrier):
    """A barrier, as ``threading.Barrier`` but for all processes of all hosts.

    Made by ``Client.barrier``. When all parties have arrived, all go on, and the
    barrier is ready for the next round. It breaks for all waiting parties when one of them times
    out or dies, or when a client aborts it, and stays broken until ``reset``. A party that dies is
    found after 4 to 6 s, one that is frozen after 7 to 9 s. A barrier that is not used for
    ``idle_ttl`` is forgotten: the next use starts afresh. It has no owner and no lease.
    """

    __slots__ = ()

    _error = BarrierBroken
    _asynchronous = ASYNCHRONOUS

    @property
    def n_waiting(self) -> int:
        """Ask the server how many parties wait at the barrier now.

        Raises:
            ServerError, OutcomeUnknown: the server cannot tell, or no answer came.
        """
        return self._count()

    @property
    def broken(self) -> bool:
        """Ask the server whether the barrier is broken now.

        Raises:
            ServerError, OutcomeUnknown: the server cannot tell, or no answer came.
        """
        return self._is_broken()

    def wait(self, timeout: options.Seconds | None = None) -> int:
        """Wait until all parties have arrived; return this party's index, from 0 to parties - 1.

        Each party has an index of its own; the first to arrive has 0. Waits for ``timeout``
        seconds, by default the barrier's; on a timeout the barrier breaks for all. The last party
        runs the barrier's ``action`` before all go on; if it raises, the barrier breaks, and
        ``wait`` raises that exception there. The action counts in the others' timeouts. A lost
        message costs up to 2 s.

        Ctrl-C gives the place back and breaks nothing.

        Raises:
            BarrierBroken: it is broken, or breaks; it is a ``threading.BrokenBarrierError``, too.
            ServerUnreachable, OutcomeUnknown: no answer within the timeout or ``server_timeout``.
            ServerError: the server refuses; the name holds something else, or a barrier with
                another number of parties, of which some have arrived.
            TypeError, ValueError, OverflowError: an invalid timeout.
        """
        return run_blocking(self._crossed(self._port, timeout))

    def reset(self) -> None:
        """Make the barrier ready again; it breaks for the parties that wait now.

        Raises:
            ServerUnreachable, OutcomeUnknown: no answer came within ``server_timeout``.
            ServerError: as ``wait``.
        """
        run_blocking(self._changed(self._port, b"reset"))

    def abort(self) -> None:
        """Break the barrier for waiting parties, and for all that arrive before a ``reset``.

        Raises:
            ServerError, OutcomeUnknown: as ``reset``.
        """
        run_blocking(self._changed(self._port, b"abort"))

    def delete(self) -> None:
        """Delete the barrier, as if it had never been used; it breaks for the parties that wait.

        The next use starts afresh, with any number of parties, and not broken.

        Raises:
            ServerError, OutcomeUnknown: as ``reset``, but for another number of parties.
        """
        run_blocking(self._changed(self._port, b"delete"))

    def _count(self) -> int:
        return (run_blocking(self._changed(self._port, b"look")))[0]

    def _is_broken(self) -> bool:
        return bool((run_blocking(self._changed(self._port, b"look")))[1])

    def __enter__(self) -> int:
        """Wait for the others and return the index; see ``wait``."""
        return self.wait()

    def __exit__(self, *_: object) -> None:
        """Do nothing: the barrier was passed at the beginning."""
