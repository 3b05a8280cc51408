"""What the command line and contrib need beyond the public client: to act for others.

Internal. A shell command holds a lock for a program that is not a client, or releases a lock that
another process acquired; some send plain commands. Everything else goes through
``fencelock.Client``.
"""
# ruff: noqa: PLC0415 - few commands use each of these, and they start in milliseconds

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from fencelock import options
from fencelock._core import events
from fencelock._core.deadlines import validity
from fencelock._core.keys import LockKeys, SignalKeys
from fencelock._core.lock.release import leave as leave_one
from fencelock._core.seat import Seat
from fencelock._core.types import Call, NoReply
from fencelock._handles import handle
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.threads import run_blocking
from fencelock._runtime.typed import TYPE_CHECKING, Any
from fencelock.blocking.lease import BlockingHold, Lease
from fencelock.blocking.lock import Lock
from fencelock.errors import FencelockError, LeaseLost, ServerError
from fencelock.options import History

if TYPE_CHECKING:
    from fencelock._core.look.overview import Overview
    from fencelock._core.look.show import Looker
    from fencelock._core.objects.once import FinishedOnce
    from fencelock.blocking.client import Client
    from fencelock.status import HistoryEntry, LockStatus, SignalStatus


# With these the command line needs no name of the flows.
__all__ = ["FinishedOnce", "validity"]


# How much longer a command may take for its history.
HISTORY_SECONDS = 0.1
_KEPT = frozenset({events.LOST, events.DEADLOCK})
_FAILURES_SOUGHT = 100
# How many waiters of each of many locks are listed: the first has waited longest.
_WAITERS_OF_EACH = 100
# How long names are sought that a wrong one may have meant.
_NEAR_SECONDS = 0.3


class Operator:
    """Acts on a client's server for people and for other programs. Raises what acquiring raises."""

    def __init__(self, client: Client) -> None:
        self._client = client
        port, self._prefix = client.__shared__()
        self._port: BlockingPort = port
        self._keeps: bool = False  # a history
        self._waits: bool = False  # for others
        self._lost: bool = False

    @property
    def server(self) -> str:
        """Return the server's name for people, without a password."""
        return self._port.label

    @property
    def sentinels(self) -> Any:
        """Return the source of Sentinels, if they say where the server is; else None."""
        source = self._port.source
        return source if hasattr(source, "sentinels") else None

    def limit_answers(self, seconds: float) -> None:
        """Wait at most this long for an answer from now on, in all calls of this client."""
        self._port.server_timeout = min(self._port.server_timeout, seconds)

    def close(self, seconds: float) -> None:
        """Close the client; wait at most this long for clean-ups that are under way."""
        events.uninstall(self._first)
        if self._port.recorder is not None:
            self._port.recorder.drop()
        self._port.shut(seconds)

    @property
    def _looker(self) -> Looker:
        from fencelock._core.look.show import Looker

        return Looker(self._port, self._prefix)

    # -- history --------------------------------------------------------------------------------

    def keep_history(self) -> None:
        """Keep from now on what a client with ``history`` keeps."""
        self._keeps = True
        events.install(self._first)

    def _first(self, event: events.LockEvent) -> None:
        """Record from the first event on that is worth it: before, nothing is imported for that."""
        # To connect takes time, too: that is no wait for others.
        self._waits = self._waits or event.kind == events.WAITING
        self._lost = self._lost or event.kind == events.LOST
        long = self._waits and event.waited >= History().threshold
        if self._port.recorder is not None or (event.kind not in _KEPT and not long):
            return
        from fencelock._core.look.history import Recorder
        from fencelock.blocking.caller import later

        post = partial(_send, self._port)
        self._port.recorder = Recorder(self._port, self._prefix, History(), later, post)
        self._port.recorder(event)

    def note_failed_run(self, lease: Lease, seconds: float, outcome: str) -> None:
        """Keep that a run of ``once`` did not succeed, if a history is kept."""
        self._note_end(lease, seconds, kind="failed", object="once", outcome=outcome)

    def note_loss(self, lease: Lease, seconds: float) -> None:
        """Keep that a command was stopped, if that was before its lease was lost."""
        if not self._lost:
            error = loss_of(lease)
            self._note_end(lease, seconds, kind="lost", reason=error.reason, detail=error.detail)

    def _note_end(self, lease: Lease, seconds: float, **fields: str) -> None:
        from fencelock._core.look import history

        if self._keeps:
            hold, client = _hold_of(lease), self._port.client_channel
            call = history.end_of_run(
                client, self._prefix, hold.name, info=hold.info, seconds=seconds, **fields
            )
            _send(self._port, call)

    def last_failed_run(self, name: str) -> HistoryEntry | None:
        """Return the last run of ``once`` that is known to have failed; None too when unknown."""
        from fencelock._core.look import history

        try:
            entries = self._client.history(name, limit=_FAILURES_SOUGHT)
        except ServerError:  # a part of what is shown
            return None
        return next((each for each in reversed(entries) if each.kind == history.FAILED), None)

    # -- locks ----------------------------------------------------------------------------------

    def key(self, name: str) -> str:
        """Return the key of a lock; ValueError for a name that cannot be one."""
        return LockKeys(self._prefix, options.lock_name(name)).lock.decode()

    def names(self, seconds: float) -> list[str]:
        """Return the names of locks that are found within so many seconds, sorted."""
        return run_blocking(self._looker.names("*", self._port.now() + seconds))

    def near(self, name: str) -> list[str]:
        """Return up to three names of locks that are like this one; none if it is one of them."""
        from difflib import get_close_matches

        try:
            known = self.names(_NEAR_SECONDS)
        except ServerError:  # only a help for people
            return []
        return [] if name in known else get_close_matches(name, known, n=3)

    def overview(self, match: str) -> Overview:
        """Return what ``refresh`` shows: the locks in use that match, with few commands a time."""
        from fencelock._core.look.overview import Overview

        return Overview(match, waiters=_WAITERS_OF_EACH)

    def refresh(self, overview: Overview) -> list[LockStatus]:
        """Return the locks in use now."""
        return run_blocking(overview.refresh(self._looker))

    def once_result(self, name: str) -> FinishedOnce | None:
        """Return the result that ``once`` keeps under a name."""
        from fencelock._core.objects.once import Runs

        return run_blocking(Runs(self._port, LockKeys(self._prefix, name)).read())

    def abort_barrier(self, info: SignalStatus) -> None:
        """Abort a barrier: it breaks for waiting parties, and for all that come before a reset."""
        from fencelock._core.objects.barrier import change
        from fencelock._core.objects.state_wait import StateSpec

        keys = SignalKeys(self._prefix, info.name)
        spec = StateSpec(keys, b"barrier", info.remaining, info.of)
        run_blocking(change(self._port, spec, b"abort"))

    # -- plain commands -------------------------------------------------------------------------

    def command(self, *words: bytes, key: bytes = b"") -> Any:
        """Send a plain command to where a key is, again where that can help; return its reply."""
        port = self._port
        until = port.now() + port.server_timeout
        return run_blocking(port.persist(lambda: port.command(words, key, until), until, Seat()))

    # -- leases of other programs ---------------------------------------------------------------

    def adopt(self, name: str, holder: str, ttl: float) -> tuple[Lock, Lease]:
        """Return a handle and a lease for another process's acquisition, by its holder id.

        Only the server knows whether that id still holds the lock: the next release or renewal
        raises LeaseLost if it does not.
        """
        port = self._port
        lock = self._client.lock(name, ttl=ttl, renew=False)
        _, holds = lock.__shared__()
        attempt = holds.attempt(port, "")
        attempt.id = attempt.holder_id = holder.encode()
        if port.nodes:
            from fencelock._core.quorum.engine import QuorumEngine

            QuorumEngine.adopt(port, attempt, ttl)  # type: ignore[arg-type]  # it has nodes
        else:
            attempt.start_lease(port, 0, port.now() + ttl)
        holds.add(attempt)
        return lock, attempt  # type: ignore[return-value]  # it is of the handle's type


def _send(port: BlockingPort, call: Call) -> None:
    """Send what a history has, once, to each node of a quorum.

    Neither a refusal nor silence holds up anything for long.
    """
    until = port.now() + HISTORY_SECONDS
    for each in port.nodes or (port,):
        with suppress(NoReply, FencelockError):
            run_blocking(each.call(*call, until))


class ActingFor:
    """While it is entered, ``show`` names another program instead of this thread.

    ``unit`` says what it does; ``pid`` is its process, this one by default.
    """

    def __init__(self, unit: str, pid: int | None = None) -> None:
        self._shown = (os.getpid() if pid is None else pid, unit)

    def __enter__(self) -> None:
        """Begin."""
        handle.acting_for = self._shown

    def __exit__(self, *_: object) -> None:
        """End."""
        handle.acting_for = None


def _hold_of(lease: Lease) -> BlockingHold:
    if not isinstance(lease, BlockingHold):  # all leases of clients are
        raise TypeError(f"{lease!r} is no lease of a client")
    return lease


def abandon(lease: Lease) -> None:
    """Leave a lease to itself: this process neither renews nor releases it from now on."""
    hold = _hold_of(lease)
    if hold.port is not None and not hold.released:
        hold.retire(hold.port)


def leave(lease: Lease, seconds: float) -> None:
    """Release a lease so long from now, within its limits; raises as a release."""
    hold = _hold_of(lease)
    port = hold.renewing_port()
    seconds = hold.within_limits(seconds, port.now())
    if hold.parts:
        run_blocking(hold.parts.leave(seconds))
    else:
        run_blocking(leave_one(port, hold, seconds))


def loss_of(lease: Lease) -> LeaseLost:
    """Return the error that says why a lease ended, or why it is about to end."""
    return _hold_of(lease).lost_error()


def observe(lease: Lease, notify: Callable[[float], None]) -> None:
    """Call ``notify`` with the deadline of a lease now, and each time that it moves.

    In the thread that moves it.
    """
    _hold_of(lease).observe(notify)
