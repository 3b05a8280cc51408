"""One term of ``fencelock elect``: as one ``fencelock run``, but that it does not give up."""

from __future__ import annotations

import time
from typing import Final

from fencelock._core.election import ElectionKeys, announce
from fencelock._core.hold import Hold, Taker
from fencelock._core.want import Want
from fencelock.candidacy import CandidateHolds, candidate_name
from fencelock.cli.commands.elect import ENDING
from fencelock.cli.output import say
from fencelock.cli.run.runner import Run
from fencelock.cli.run.supervisor_client import CommandEnd
from fencelock.errors import NotAcknowledged, OutcomeUnknown, ServerUnreachable
from fencelock.handles import Settings
from fencelock.lease import BaseLease
from fencelock.options import lock_name

_PAUSE: Final = 1.0


class Term(Run):
    """One term, from the campaign to the end of the command."""

    def _request(self, unit: str, chosen: Settings) -> Want:
        self.session.refuse_quorum("election")
        self.keys: ElectionKeys = ElectionKeys(self.session.prefix, lock_name(self.args.name))
        self.candidate: str = candidate_name(self.args.candidate)
        holds = CandidateHolds(self.keys, chosen, BaseLease, self.candidate)
        return holds.want(self.session.port, unit)

    def _take(self, patience: float | None, taker: Taker) -> Hold | None:
        """Campaign until elected: a server that is away comes back."""
        self.args.heard = self.signals.received
        told = False
        while True:
            try:
                hold = super()._take(patience, taker)
            except (ServerUnreachable, OutcomeUnknown, NotAcknowledged) as error:
                if not told and not self.args.quiet:
                    say(f"{error}; trying again")
                told = True
                time.sleep(_PAUSE)
                self.want: Want = self._want()
            else:
                announce(self.session.port, self.keys)
                return hold

    def _detach_streams(self) -> None:
        """Keep stdin and stdout: the next term's command gets them."""

    def _environment(self, lease: BaseLease) -> dict[str, str]:
        return super()._environment(lease) | {"FENCELOCK_CANDIDATE": self.candidate}

    def _give_back(self, hold: Hold, ended: CommandEnd) -> None:
        super()._give_back(hold, ended)
        announce(self.session.port, self.keys)
        self.args.ended = True
        self.args.again = ended.ran and self.args.restart is not None and not self._ending()

    def _stopped(self, hold: Hold) -> int:
        status = super()._stopped(hold)
        announce(self.session.port, self.keys)
        self.args.again = not self._ending()
        return status

    def _ending(self) -> bool:
        return not ENDING.isdisjoint(self.signals.received)
