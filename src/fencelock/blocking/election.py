# Generated from aio/election.py by generate_blocking.py: change that, and run the script.
"""Elections, for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fencelock import options
from fencelock._core.lock.hold import Hold
from fencelock._core.objects.election import Contest
from fencelock._handles.body import Body, raise_release_error
from fencelock._handles.election import CandidateHolds
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.threads import run_blocking
from fencelock._runtime import process
from fencelock._runtime.hints import made_by_clients
from fencelock.blocking.caller import awaited, watch
from fencelock.blocking.lease import Lease
from fencelock.blocking.lock import Holder
from fencelock.errors import FencelockError, NotHeld
from fencelock.options import Seconds
from fencelock.status import Leader


class Election(Holder):
    """One candidate of an election; ``Client.election`` makes it. One leads at a time.

    Leadership is a lease on the lock of that name: it is renewed while it is held, and ends here
    before it can begin elsewhere. The candidate leads, not a thread: any thread may resign.
    That ends it for all. Where several threads campaigned or are inside ``with``, the end of
    a body resigns only when no other thread relies on the leadership.
    """

    __slots__ = ("_on_elected",)

    _holds: CandidateHolds

    @made_by_clients
    def __init__(
        self,
        port: BlockingPort,
        holds: CandidateHolds,
        *,
        on_elected: Callable[[Lease], object] | None,
    ) -> None:
        super().__init__(port, holds)
        self._on_elected = on_elected

    @property
    def name(self) -> str:
        """Return the election's name, without the prefix."""
        return self._holds.keys.name

    @property
    def candidate(self) -> str:
        """Return the name of this candidate."""
        return self._holds.candidate

    @property
    def is_leader(self) -> bool:
        """Return True if this candidate leads, as far as this process can prove it; sends nothing.

        False from the instant at which another candidate may be elected.
        """
        return self._holds.leads()

    @property
    def lease(self) -> Lease | None:
        """Return the lease of this candidate's leadership, or None."""
        return self._holds.newest()  # type: ignore[return-value]  # it is of this type

    def campaign(self, blocking: bool = True, timeout: Seconds = -1) -> bool:
        """Stand for election; True once elected, False when it was not elected in time.

        Waits in line for ever, or for ``timeout`` seconds; ``blocking=False`` tries once. Returns
        True at once when this candidate leads. ``on_elected`` is called before it returns; when
        that raises, the candidate resigns. It ends as ``Lock.acquire`` does.

        Raises:
            NotAcquired: this candidate campaigns already, elsewhere in this process.
            ServerError, OutcomeUnknown, ValueError, OverflowError: as ``Lock.acquire``.
        """
        seconds = options.acquire_timeout(timeout, blocking=blocking)
        use = Body(process.here.unit)
        try:
            hold = self._enter(use, seconds)
            return hold is not None
        except BaseException:
            self._undo(use)
            raise

    def _enter(self, use: Body, seconds: float | None) -> Hold | None:
        """Join the leadership, or campaign; the frame that called undoes it after an interrupt."""
        holds, port = self._holds, self._port
        with port.mutex:
            if holds.join(use):
                return use.held  # type: ignore[no-any-return]  # it is a hold
        for lost in holds.begin(use):
            lost.release_in_background(port)
        try:
            attempt = use.attempt = holds.attempt(port, use.unit)
            hold = use.held = port.acquire(attempt, seconds)
            if hold is None:
                return None
            with port.mutex:
                holds.rely(use, hold)
        finally:
            holds.campaigning = None
        Contest(port, holds.keys).announce()
        if self._on_elected is not None:
            try:
                awaited(self._on_elected(hold))  # type: ignore[arg-type]  # it is of our type
            except Exception as error:
                try:
                    self._give_up(hold)
                except FencelockError as trouble:
                    raise_release_error(trouble, error, f"release of {self.name!r}")
                use.attempt = None  # it is given back
                raise
        return hold

    def resign(self) -> None:
        """Give up the leadership; the next candidate in line is elected.

        Raises:
            NotHeld: this candidate does not lead.
            LeaseLost: the leadership had ended before; another candidate may lead.
            OutcomeUnknown, ServerUnreachable: no answer came; the request is repeated in the
                background, and the leadership ends by its ttl at the latest.
        """
        self._give_back()
        Contest(self._port, self._holds.keys).announce()

    def hand_over(self, candidate: str) -> None:
        """Hand the leadership over to a waiting candidate, whatever its place in line.

        A candidate that is in line but does not listen, as during a failover, may be about to
        reconnect: it is waited for, 3 s at most.

        Raises:
            LookupError: that candidate does not wait; this one stays the leader.
            NotHeld: this candidate does not lead.
            LeaseLost: the leadership had ended before; another candidate may lead.
            OutcomeUnknown, ServerUnreachable: no answer came; the leadership is given up in the
                background, for the next candidate in line.
        """
        name = options.text("candidate", candidate)
        holds, hold = self._holds, self._holds.leading()
        if not run_blocking(Contest(self._port, holds.keys).hand_over(hold, holds, name)):
            raise LookupError(f"{name!r} is not waiting to be elected to {self.name!r}")

    def leader(self) -> Leader | None:
        """Ask the server for the present leader; None when there is none.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        return run_blocking(Contest(self._port, self._holds.keys).leader())

    def candidates(self) -> list[str]:
        """Ask the server for the waiting candidates, in the order of the line; the first hundred.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        return run_blocking(Contest(self._port, self._holds.keys).candidates())

    def changes(self, *, timeout: Seconds | None = None) -> Iterator[Leader | None]:
        """Iterate over the leaders: the present one, then each new one; None while there is none.

        Each change is notified at once. If the message is lost, or a leader dies, the change is
        found within 2 s, or within 2 s of the end of the lease. Changes that follow each other very
        quickly may be seen as one. It goes on for ever, or ends when nothing has changed for
        ``timeout`` seconds.

        Raises:
            ServerError: from the iteration, when the server cannot tell.
        """
        span = None if timeout is None else options.positive("timeout", timeout)
        return LeaderChanges(self._port, self._holds, span)

    def _begun(self, body: Body, hold: Hold | None) -> Lease:
        """Return the lease for a body that begins."""
        if hold is None:
            raise self._holds.not_granted(body.attempt)
        if self._holds.cancels:
            watch(body)
        return hold  # type: ignore[return-value]  # it is of our type

    def _end_body(self, body: Body | None) -> None:
        """Resign, unless other threads still lead by this handle, or it was handed over."""
        if body is None:
            return
        with self._port.mutex:
            hold = self._holds.leave(body)
        if hold is not None:
            self._give_up(hold)
        elif body.held.lost:
            raise body.held.lost_error()

    def _give_up(self, hold: Hold) -> None:
        """Give a leadership up, unless another thread does."""
        holds, port = self._holds, self._port
        try:
            port.release(self, holds.take_this, hold)
        except NotHeld:
            return  # resigned, or handed over, in this moment
        Contest(port, holds.keys).announce()

    def __repr__(self) -> str:
        """Show name, candidate and whether it leads, as this process knows it."""
        state = "leading" if self.is_leader else "not leading"
        return (
            f"<fencelock.{type(self).__name__} {self.name!r} candidate={self.candidate!r} {state}>"
        )


class LeaderChanges:
    """The iterator of ``Election.changes``."""

    def __init__(self, port: BlockingPort, holds: CandidateHolds, timeout: float | None) -> None:
        self._timeout = timeout
        self._watched = Contest(port, holds.keys)

    def __iter__(self) -> Iterator[Leader | None]:
        return self

    def __next__(self) -> Leader | None:
        watched, timeout = self._watched, self._timeout
        give_up_at = float("inf") if timeout is None else watched.port.now() + timeout
        if not run_blocking(watched.next_change(give_up_at)):
            raise StopIteration
        return watched.last
