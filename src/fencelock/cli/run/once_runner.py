"""One ``fencelock once``: as one ``fencelock run``, but that a run that went well is remembered."""

from __future__ import annotations

from fencelock._core.hold import Hold, Taker
from fencelock._core.once import Done, OnceKeys, finish, start
from fencelock._core.want import Want
from fencelock._ports.blocking import run_blocking
from fencelock.cli import arguments, exits
from fencelock.cli.output import say
from fencelock.cli.run.runner import Run
from fencelock.cli.run.supervisor_client import CommandEnd
from fencelock.cli.run.watched import watched
from fencelock.errors import AcquireTimeout, FencelockError, LeaseLost, NotAcknowledged, NotAcquired
from fencelock.handles import Settings
from fencelock.lease import BaseLease
from fencelock.options import lock_name
from fencelock.outcome import JSON, OnceHolds

_RESULT = (JSON, b'{"exit":0}')


class OnceRun(Run):
    """One run, from the question whether it is done to the exit status."""

    done: Done | None = None

    def _request(self, unit: str, chosen: Settings) -> Want:
        self.session.refuse_quorum("once")
        keys = OnceKeys(self.session.prefix, lock_name(self.args.name))
        return OnceHolds(keys, chosen, BaseLease).want(self.session.port, unit)

    def _take(self, patience: float | None, taker: Taker) -> Hold | None:
        begun = run_blocking(start(self.session.port, self.want, patience, taker))
        if isinstance(begun, Done):
            self.done = begun
            return None
        return begun

    def _busy(self) -> int:
        args = self.args
        if self.done is not None:
            self.outcome: str = "done"
            if args.verbose:
                say(f"{args.name} was done before, by {self.done.who}, fence {self.done.fence}")
            return 0
        self.outcome = "busy"
        status: int = args.busy_exit
        if not args.quiet and (status or args.verbose):
            within = arguments.within(args)
            told = f"was not done{within}" if within else "is being run elsewhere"
            kind = AcquireTimeout if within else NotAcquired
            exits.tell(kind(f"{args.name!r} {told}", name=args.name))
        return status

    def _give_back(self, hold: Hold, ended: CommandEnd) -> None:
        """Remember a run that went well; give the lock to the next when it did not."""
        if ended.status or not ended.ran:
            self.outcome = "failed" if ended.ran else "not run"
            super()._give_back(hold, ended)
            return
        port, name = self.session.port, self.args.name
        try:
            taker = Taker(watched(self.prolonged))
            run_blocking(finish(port, hold, taker, self.args.within, _RESULT))
        except LeaseLost as error:
            self.outcome = "ran, lease lost"
            say(f"{error}; {name} had ended by itself, and may have been run twice")
        except NotAcknowledged as error:
            say(f"{name} was run, and after a failover it may be run again: {error}")
        except FencelockError as error:
            say(f"{name} was run, but the server could not record it: {error}")
