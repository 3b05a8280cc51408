"""What a candidate is in threads and in asyncio alike: its name, and its place in line."""

from __future__ import annotations

import os
import socket
from typing import Any

from fencelock import options
from fencelock._core.election import CANDIDATE_BYTES_MAX, ElectionKeys, mark
from fencelock._core.hold import Hold
from fencelock._core.port import Port
from fencelock._core.want import Form, Want
from fencelock.errors import NotAcquired
from fencelock.handles import Holds, Settings, describe
from fencelock.lease import BaseLease


def candidate_name(value: Any) -> str:
    """Return a candidate's name: what was given, or ``host:pid``."""
    if value is None:
        return f"{socket.gethostname()[:100]}:{os.getpid()}"
    name = options.text("candidate", value)
    if len(name.encode(errors="replace")) > CANDIDATE_BYTES_MAX or not name.isprintable():
        raise ValueError(
            f"candidate must be printable and have at most {CANDIDATE_BYTES_MAX} bytes: {value!r}"
        )
    return name


class CandidateHolds(Holds):
    """The leadership of one candidate; its place in line tells its name."""

    __slots__ = ("campaigning", "candidate", "election")

    def __init__(
        self,
        keys: ElectionKeys,
        settings: Settings,
        lease_type: type[BaseLease],
        candidate: str,
    ) -> None:
        super().__init__(keys, settings, lease_type)
        self.election: ElectionKeys = keys
        self.candidate: str = candidate
        self.campaigning: bool = False

    def want(self, port: Port, unit: str) -> Want:
        """Return a fresh request by a thread or task of that name."""
        settings = self.settings
        form = Form(
            keys=self.keys, terms=settings.terms, home=port.home, ttl=settings.terms.first_ttl()
        )
        info = describe(unit, settings.label)[:-1] + b"," + mark(self.candidate)
        return Want(form, port.new_id(), info)

    def leads(self) -> bool:
        """Tell whether the candidate leads, as far as can be proved here."""
        hold = self.newest()
        return hold is not None and hold.lease.remaining() > 0

    def begin(self) -> list[Hold]:
        """Note that the candidate campaigns; return what it lost before, to be given back."""
        if self.campaigning:
            name = self.keys.name
            raise NotAcquired(f"{self.candidate!r} campaigns for {name!r} already", name=name)
        self.campaigning = True
        return [hold for hold in tuple(self._now()) if hold.lease.lost and self.remove(hold)]

    def leading(self) -> Hold:
        """Return the hold of the leader; NotHeld when the candidate does not lead."""
        hold = self.newest()
        if hold is None:
            raise self.not_held()
        return hold
