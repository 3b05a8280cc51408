"""``fencelock run``, ``once`` and ``elect``: from the request for the lock to the exit status.

Two processes share the work: this one holds the lock, the supervisor (``supervisor.py``) is the
command's parent.

Rules of this file:

- Each new deadline of the lease goes to the supervisor in the same moment.
- The supervisor was started before (``commands/run.py``), while there was no connection and no
  thread.
- Once the command runs, its exit status is ours, except for a lost lease.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from fencelock._operator import ActingFor, leave, loss_of, observe, validity
from fencelock._runtime.clock import now
from fencelock._runtime.typed import TYPE_CHECKING, Any, Final
from fencelock.cli import arguments, exits
from fencelock.cli.arguments import Arguments
from fencelock.cli.os_signals import SignalHandlers
from fencelock.cli.output import human, json_text, say, to_stderr
from fencelock.cli.run.process_tree import ProcessTree
from fencelock.cli.run.supervisor import detach_streams
from fencelock.cli.run.supervisor_client import NEVER, CommandEnd, StopSchedule, SupervisorClient
from fencelock.cli.session import PAUSE_SECONDS, Session, patiently
from fencelock.cli.shown import WaitStatus, not_granted
from fencelock.errors import (
    AcquireTimeout,
    FencelockError,
    LeaseLost,
    NotAcknowledged,
    NotAcquired,
    OutcomeUnknown,
    ServerUnreachable,
)
from fencelock.options import TTL_MIN

if TYPE_CHECKING:
    from fencelock import Election, Lease, Outcome

# How long the release of a lost lease may take: the exit status is what matters now.
_CLOSING_SECONDS: Final = 0.1


class CommandRun:
    """One run of a command under a lock."""

    def __init__(
        self, args: Arguments, signals: SignalHandlers, supervisor: SupervisorClient
    ) -> None:
        self.args: Arguments = args
        self.signals: SignalHandlers = signals
        self.supervisor: SupervisorClient = supervisor
        self.warns: bool = args.on_lost == "warn"
        self.ended: bool = False  # the command has
        self.was_notified: bool = False  # of the loss, while the command ran
        self.began: float = now()
        self.granted_at: float = self.began
        self.lease: Lease | None = None
        self.outcome: str = "failed"
        self.what: str = os.path.basename(args.command[0])  # noqa: PTH119 - pathlib loads for long

    def go(self) -> int:
        """Acquire, run the command and release; return the exit status."""
        with Session(self.args) as session, ActingFor(f"run {self.what}"):
            self.session = session
            if not self.supervisor.spec.terminal:
                session.say_if_alone()
            self.lock: Any = self._make_lock()
            try:
                status = self._run()
                if self.outcome == "lost" and self.lease is not None:
                    self.session.operator.note_loss(self.lease, now() - self.granted_at)
            except FencelockError as error:
                self.outcome = type(error).__name__
                status = exits.report(error)
            except exits.Interrupted as stop:
                self.outcome = "interrupted"
                status = exits.SIGNALLED + stop.number
            finally:
                self.supervisor.close()
        if self.args.json:
            lease, fence = self.lease, self.lease.fence if self.lease else None
            waited = (self.granted_at if lease else now()) - self.began
            held = now() - self.granted_at if lease else 0.0
            summary = {"name": self.args.name, "fence": fence, "outcome": self.outcome}
            summary |= {"waited": round(waited, 3), "held": round(held, 3), "exit": status}
            to_stderr(json_text(summary) + "\n")
        return status

    # -- before ---------------------------------------------------------------------------------

    def _options(self) -> dict[str, Any]:
        """Return the options of the handle that all kinds of locks have."""
        return {"label": self.args.label or None, "on_lost": self._lost}

    def _make_lock(self) -> Any:
        """Return the handle of what is held while the command runs."""
        args, client = self.args, self.session.client
        options = self._options() | {"max_hold": args.max_hold}
        if args.slots is not None:
            return client.bounded_semaphore(args.name, args.slots, ttl=args.ttl, **options)
        if args.shared or args.exclusive:
            lock = client.rwlock(args.name, read_ttl=args.ttl, write_ttl=args.ttl, **options)
            return lock.read if args.shared else lock.write
        return client.lock(args.name, ttl=args.ttl, **options)

    def _wait_status(self) -> WaitStatus:
        return WaitStatus(self.session.client, self.args.name, self.args)

    def _run(self) -> int:
        try:
            with self._wait_status():
                granted = self._acquire()
            if not granted:
                return self._busy()
            ended = self._run_command(self.lock.lease)
        except exits.Interrupted:  # it may have come when the lock was granted
            self._release_quickly()
            raise
        self._after(ended)
        return ended.status

    def _acquire(self) -> bool:
        granted: bool = patiently(self.args, self.lock.acquire)
        return granted

    def _release(self) -> None:
        self.lock.release()

    def _busy(self) -> int:
        args, self.outcome = self.args, "busy"
        status: int = args.busy_exit
        if not args.quiet and (status or args.verbose):
            exits.report(self._refusal(arguments.within(args)))
        return status

    def _refusal(self, within: str) -> NotAcquired:
        return not_granted(self.session, self.args.name, within)

    # -- during ---------------------------------------------------------------------------------

    def _run_command(self, lease: Lease) -> CommandEnd:
        """Run the command under a lease; return how it ended, and 76 if the lease was lost."""
        args, supervisor = self.args, self.supervisor
        self.signals.hold_back()
        self.lease, self.granted_at = lease, now()
        end = NEVER if args.max_hold is None else self.granted_at + validity(args.max_hold)
        self.schedule: StopSchedule = StopSchedule(
            supervisor.spec.grace, args.on_lost == "term", end
        )
        observe(lease, self._deadline_moved)
        if args.verbose:
            waited = human(self.granted_at - self.began)
            say(f"holding {args.name}, fence {lease.fence}, after {waited}")
        supervisor.start(self._environment(lease))
        wake = self.signals.forward(supervisor.signal, terminal=supervisor.spec.terminal)
        self._detach_streams()
        ended = supervisor.wait(wake)
        if ended is None:  # in the place of a supervisor that was killed, or is stopped
            pid, terminal = supervisor.command_pid, supervisor.spec.terminal
            if pid is not None:
                mark = f"FENCELOCK_HOLDER={lease.holder}".encode() if terminal else b""
                ProcessTree(pid, os.getsid(0) if terminal else pid, mark).kill()
            if not supervisor.frozen:
                say(f"the guard process was killed: {self.what} was stopped")
                return CommandEnd(exits.INTERNAL, stopped=False, ran=True)
        elif not ended.stopped:
            self.outcome = "ran" if ended.ran else "not run"
            return ended
        self.outcome = "lost"
        say(f"the lease of {args.name!r} is lost ({_why(lease)}): {self.what} was stopped")
        return CommandEnd(exits.LOST, stopped=True, ran=True)

    def _deadline_moved(self, deadline: float) -> None:
        """Tell the supervisor how long the command may run."""
        if not self.warns:
            self.supervisor.until(*self.schedule.instants(deadline, now()))

    def _lost(self, lease: Lease) -> None:
        """Take note of the loss, in a thread of the client."""
        if self.ended:  # the release found it, and reports it
            return
        self.was_notified = True
        if self.warns:
            say(f"{loss_of(lease)}; {self.what} goes on without it")
        else:
            self.supervisor.lost()

    def _detach_streams(self) -> None:
        detach_streams()

    def _environment(self, lease: Lease) -> dict[str, str]:
        return {
            "FENCELOCK_NAME": lease.name,
            "FENCELOCK_FENCE": str(lease.fence),
            "FENCELOCK_HOLDER": lease.holder,
            "FENCELOCK_URL": self.session.url(),
            "FENCELOCK_UNTIL": str(int(lease.expires_at() * 1000)),
        }

    # -- after ----------------------------------------------------------------------------------

    def _after(self, ended: CommandEnd) -> None:
        """Release, or keep the lock for the rest of ``--at-least``; never changes the status."""
        if ended.stopped:  # the lease is lost, or about to be
            self._release_quickly()
            return
        self.ended = True
        lease = self.lock.lease
        rest = self.granted_at + (self.args.at_least or 0.0) - now()
        try:
            if ended.ran and rest >= TTL_MIN:
                leave(lease, rest)
            else:
                # Once the lease has ended by itself there is nothing left to release.
                self.session.operator.limit_answers(lease.remaining())
                self._release()
        except LeaseLost as error:
            self.outcome = "ran, lease lost"
            if not (self.was_notified and self.warns):
                say(f"{error}; {self.what} had ended by itself")
        except FencelockError as error:
            say(f"the lock {self.args.name!r} ends by itself, it could not be given back: {error}")

    def _release_quickly(self) -> None:
        """Release what may be held, and wait for no silent server."""
        self._hurry()
        if self.lock.lease is not None:
            with suppress(FencelockError):
                self._release()

    def _hurry(self) -> None:
        self.session.closing_seconds = _CLOSING_SECONDS
        self.session.operator.limit_answers(_CLOSING_SECONDS)


def _why(lease: Lease) -> str:
    """Return in words why a lease ended, or was about to."""
    error = loss_of(lease)
    if error.reason == "expired" and not lease.lost:
        return "the server does not renew it"
    return f"{error.reason}: {error.detail}" if error.detail else error.reason


# -- once ------------------------------------------------------------------------------------------


class _RunFailedError(Exception):
    """The command did not succeed, so that the run is not remembered."""

    def __init__(self, ended: CommandEnd) -> None:
        super().__init__()
        self.ended = ended


def _how(outcome: str, status: int) -> str:
    """Return in words how a command ended that did not succeed."""
    if outcome == "failed":
        return (
            f"signal {status - exits.SIGNALLED}" if status > exits.SIGNALLED else f"exit {status}"
        )
    return "the lease was lost" if outcome == "lost" else "it could not be started"


class OnceRun(CommandRun):
    """One ``fencelock once``: as ``fencelock run``, but a run that succeeded is remembered."""

    def _make_lock(self, timeout: float | None = None) -> Any:
        args = self.args
        within = args.wait if timeout is None else timeout
        options = self._options() | {"max_hold": args.max_hold, "timeout": within}
        return self.session.client.once(
            args.name,
            within=args.within,
            wait=args.wait is not None,
            lease="lease",
            ttl=args.ttl,
            **options,
        )

    def _run(self) -> int:
        with self._wait_status() as status:
            self.status: WaitStatus = status
            try:
                outcome = patiently(self.args, self._once, began=lambda: self.lease is not None)
            except _RunFailedError as failed:
                return failed.ended.status
            except AcquireTimeout:
                return self._busy()
            except FencelockError as error:
                if self.lease is None:
                    raise
                self._not_recorded(error)
                return 0
        if not outcome.ran and not outcome.done:
            return self._busy()
        if not outcome.ran:
            self.outcome: str = "done"
            if self.args.verbose:
                say(f"{self.args.name} was done before, by {outcome.by}, fence {outcome.fence}")
        return 0

    def _once(self, *, timeout: float | None = None, blocking: bool = True) -> Outcome[Any]:
        """Run the command unless it is done; with ``--wait`` within what is left of that."""
        if blocking:
            self.lock: Any = self._make_lock(timeout)
        return self.lock.run(self._body)  # type: ignore[no-any-return]  # of any kind of locks

    def _body(self, lease: Lease) -> dict[str, int]:
        self.status.stop()
        ended = self._run_command(lease)
        self.ended = True
        if ended.ran and not (ended.stopped or ended.status):
            self.outcome = "ran"
            return {"exit": 0}
        if ended.stopped:
            self._hurry()
        else:
            self.outcome = "failed" if ended.ran else "not run"
        took = now() - self.granted_at
        self.session.operator.note_failed_run(lease, took, _how(self.outcome, ended.status))
        raise _RunFailedError(ended)  # the lock is released, for the next host to run the command

    def _refusal(self, within: str) -> NotAcquired:
        state = f"was not done{within}" if within else "is being run elsewhere"
        kind = AcquireTimeout if within else NotAcquired
        return kind(f"{self.args.name!r} {state}", name=self.args.name)

    def _not_recorded(self, error: FencelockError) -> None:
        name = self.args.name
        if isinstance(error, LeaseLost):
            self.outcome = "ran, lease lost"
            say(f"{error}; {name} had ended by itself, and may have been run twice")
        elif isinstance(error, NotAcknowledged):
            say(f"{name} was run, and after a failover it may be run again: {error}")
        else:
            say(f"{name} was run, but the server could not record it: {error}")


# -- elect -----------------------------------------------------------------------------------------


class ElectionRun(CommandRun):
    """One term of ``fencelock elect``: as ``fencelock run``, but it does not give up."""

    def _make_lock(self) -> Election:
        args = self.args
        args.received = self.signals.received
        return self.session.client.election(
            args.name, candidate=args.candidate, ttl=args.ttl, **self._options()
        )

    def _acquire(self) -> bool:
        """Campaign until elected: a server that is away comes back."""
        reported = self.args.quiet
        while True:
            try:
                return bool(self.lock.campaign())
            except (ServerUnreachable, OutcomeUnknown, NotAcknowledged) as error:
                if not reported:
                    say(f"{error}; trying again")
                reported = True
                time.sleep(PAUSE_SECONDS)

    def _release(self) -> None:
        self.lock.resign()

    def _detach_streams(self) -> None:
        """Keep stdin and stdout: the next term's command gets them."""

    def _environment(self, lease: Lease) -> dict[str, str]:
        return super()._environment(lease) | {"FENCELOCK_CANDIDATE": self.lock.candidate}

    def _after(self, ended: CommandEnd) -> None:
        super()._after(ended)
        args = self.args
        args.ended = not ended.stopped
        stands = ended.stopped or (ended.ran and args.restart is not None)
        args.again = stands and args.ending.isdisjoint(self.signals.received)
