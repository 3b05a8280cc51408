"""One ``fencelock run``: from the request for the lock to the exit status.

Two processes share the work: this one holds the lock, the supervisor (``supervisor.py``) is the
command's parent.

Rules of this file:

- Each new deadline of the lease goes to the supervisor in the same moment.
- The supervisor was started before (``commands/run.py``), while there was no connection and no
  thread.
- Once the command runs, its exit status is ours, but for a lost lease.
"""

from __future__ import annotations

import os
from typing import Any, Final, Literal

from fencelock._core.acquire import acquire
from fencelock._core.hold import Hold, Taker
from fencelock._core.release import post_release, release
from fencelock._core.renew import renew_now
from fencelock._core.timing import validity
from fencelock._core.want import Want
from fencelock._ports.blocking import run_blocking
from fencelock.cli import arguments, exits
from fencelock.cli.arguments import Arguments
from fencelock.cli.os_signals import SignalHandlers
from fencelock.cli.output import human, json_to_stderr, say
from fencelock.cli.run.process_tree import ProcessTree
from fencelock.cli.run.supervisor import detach_streams
from fencelock.cli.run.supervisor_client import NEVER, CommandEnd, StopSchedule, SupervisorClient
from fencelock.cli.run.watched import watched
from fencelock.cli.session import Session
from fencelock.cli.wait_status import WaitStatus, not_granted
from fencelock.clock import now
from fencelock.errors import FencelockError, LeaseLost
from fencelock.handles import Settings
from fencelock.lease import BaseLease
from fencelock.options import TTL_MIN

# How long a release that follows a loss is waited for: the exit status is what matters now.
_CLOSING_SECONDS: Final = 0.1


class Run:
    """One run, from the request to the exit status."""

    def __init__(
        self, args: Arguments, signals: SignalHandlers, supervisor: SupervisorClient
    ) -> None:
        self.args: Arguments = args
        self.signals: SignalHandlers = signals
        self.supervisor: SupervisorClient = supervisor
        self.warns: bool = args.on_lost == "warn"
        self.ended: bool = False  # the command has
        self.was_told: bool = False  # the holder's loss, while the command ran
        self.began: float = now()
        self.granted_at: float = self.began
        self.hold: Hold | None = None
        self.outcome: str = "failed"

    def go(self) -> int:
        """Do it all; return the exit status."""
        args = self.args
        with Session(args) as session:
            self.session = session
            self.want: Want = self._want()
            try:
                status = self._held() if self._granted() else self._busy()
            except FencelockError as error:
                self.outcome = type(error).__name__
                status = exits.tell(error)
            except exits.Interrupted as stop:
                self.outcome = "interrupted"
                status = exits.SIGNALLED + stop.number
            finally:
                self.supervisor.close()
        if args.json:
            self._report(status)
        return status

    # -- before ---------------------------------------------------------------------------------

    def _want(self) -> Want:
        args = self.args
        chosen = self.session.settings(
            ttl=args.ttl,
            renew=True,
            label=args.label,
            max_hold=args.max_hold,
            on_lost=self._lost,
        )
        unit = f"run {os.path.basename(args.command[0])}"  # noqa: PTH119 - pathlib loads for long
        return self._request(unit, chosen)

    def _request(self, unit: str, chosen: Settings) -> Want:
        args = self.args
        side: Literal["read", "write"] | None = (
            "read" if args.shared else "write" if args.exclusive else None
        )
        return self.session.request(args.name, unit, chosen, slots=args.slots, side=side)

    def _granted(self) -> bool:
        patience = arguments.patience(self.args)
        quiet = self.args.quiet or patience == arguments.ONE_TRY
        with WaitStatus(self.session.port, self.want.keys, quiet=quiet):
            self.hold = self._take(patience, Taker(watched(self.prolonged)))
        return self.hold is not None

    def _take(self, patience: float | None, taker: Taker) -> Hold | None:
        return run_blocking(acquire(self.session.port, self.want, patience, taker))

    def _busy(self) -> int:
        self.outcome = "busy"
        if not self.args.quiet and (self.args.busy_exit or self.args.verbose):
            exits.tell(not_granted(self.session.port, self.want.keys, arguments.within(self.args)))
        status: int = self.args.busy_exit
        return status

    # -- during ---------------------------------------------------------------------------------

    def prolonged(self, deadline: float) -> None:
        """Tell the supervisor how long the command may run; first called at the grant."""
        if self.signals.hold_back():
            self.granted_at = now()
            limit = self.args.max_hold
            end = NEVER if limit is None else self.granted_at + validity(limit)
            self.schedule: StopSchedule = StopSchedule(
                self.supervisor.spec.grace, self.args.on_lost == "term", end
            )
        if not self.warns:
            self.supervisor.until(*self.schedule.now(deadline))

    def _lost(self, lease: BaseLease) -> None:
        """Hear of the loss, in a thread of its own."""
        if self.ended:  # the release found it: it says so itself
            return
        self.was_told = True
        if self.warns:
            say(f"{lease._lost_error()}; {self._what()} goes on without it")
        else:
            self.supervisor.lost()

    def _held(self) -> int:
        hold = self._held_now()
        if self.args.verbose:
            waited = human(self.granted_at - self.began)
            say(f"holding {self.args.name}, fence {hold.lease.fence}, after {waited}")
        self.supervisor.start(self._environment(hold.lease))
        terminal = self.supervisor.spec.terminal
        wake = self.signals.forward(self.supervisor.signal, terminal=terminal)
        self._detach_streams()
        ended = self.supervisor.wait(wake)
        if ended is None:
            return self._supervisor_gone(terminal=terminal)
        if ended.stopped:
            return self._stopped(hold)
        self.outcome = "ran" if ended.ran else "not run"
        self._give_back(hold, ended)
        return ended.status

    def _detach_streams(self) -> None:
        detach_streams(0, 1)

    def _environment(self, lease: BaseLease) -> dict[str, str]:
        return {
            "FENCELOCK_NAME": lease.name,
            "FENCELOCK_FENCE": str(lease.fence),
            "FENCELOCK_HOLDER": lease.holder,
            "FENCELOCK_URL": self.session.url(),
            "FENCELOCK_UNTIL": str(int(lease.expires_at() * 1000)),
        }

    # -- after ----------------------------------------------------------------------------------

    def _give_back(self, hold: Hold, ended: CommandEnd) -> None:
        """Release, or keep the lock for the rest of ``--at-least``; never changes the status."""
        port, self.ended = self.session.port, True
        rest = self.granted_at + (self.args.at_least or 0.0) - now()
        try:
            if ended.ran and rest >= TTL_MIN:
                self.session.settle(hold)
                rest = self.granted_at + self.args.at_least - now()
                run_blocking(renew_now(port, hold, max(TTL_MIN, rest)))
                self.session.leave(hold)
            else:
                # Once the lease has ended by itself there is nothing left to give back.
                port.patience = min(port.patience, hold.lease.remaining())
                run_blocking(release(port, hold))
        except LeaseLost as error:
            self.outcome = "ran, lease lost"
            if not (self.was_told and self.warns):
                say(f"{error}; {self._what()} had ended by itself")
        except FencelockError as error:
            say(f"the lock {self.args.name!r} ends by itself, it could not be given back: {error}")

    def _stopped(self, hold: Hold) -> int:
        """The lease ended, or was about to, and the command was stopped."""
        self.outcome = "lost"
        why = _why(hold)
        self.session.leave(hold)
        post_release(self.session.port, hold)
        self.session.closing_seconds = _CLOSING_SECONDS  # the server may be silent
        say(f"the lease of {self.args.name!r} is lost ({why}): {self._what()} was stopped")
        return exits.LOST

    def _supervisor_gone(self, *, terminal: bool) -> int:
        """The supervisor was killed, or is stopped: end the command, then release the lock."""
        hold, pid = self._held_now(), self.supervisor.command_pid
        if pid is not None:
            mark = f"FENCELOCK_HOLDER={hold.lease.holder}".encode() if terminal else b""
            ProcessTree(pid, os.getsid(0) if terminal else pid, mark).kill()
        if self.supervisor.frozen:
            return self._stopped(hold)
        say(f"the guard process was killed: {self._what()} was stopped")
        self._give_back(hold, CommandEnd(exits.INTERNAL, stopped=True, ran=True))
        return exits.INTERNAL

    def _held_now(self) -> Hold:
        if self.hold is None:
            raise AssertionError("nothing is held")
        return self.hold

    def _what(self) -> str:
        command: str = self.args.command[0]
        return os.path.basename(command)  # noqa: PTH119 - as in _want

    def _report(self, status: int) -> None:
        hold = self.hold
        data: dict[str, Any] = {
            "name": self.args.name,
            "fence": hold.lease.fence if hold else None,
            "outcome": self.outcome,
            "waited": round((self.granted_at if hold else now()) - self.began, 3),
            "held": round(now() - self.granted_at, 3) if hold else 0.0,
            "exit": status,
        }
        json_to_stderr(data)


def _why(hold: Hold) -> str:
    error = hold.lease._lost_error()
    if not hold.lease.lost and error.reason == "expired":
        return "the server does not renew it"
    return f"{error.reason}: {error.detail}" if error.detail else error.reason
