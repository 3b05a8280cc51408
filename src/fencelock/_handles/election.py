"""Shared state of election handles: the candidate's name, its hold, and the code that relies on it.

Rules of this file:

- The candidate leads, and several threads or tasks may rely on that: each body of ``with``, and
  each thread or task that campaigned. The leadership is given up when the last of them has left.
- ``resign`` and ``hand_over`` end it for all of them, as a loss does.
- Code that changes ``_uses`` together with the hold does so under the port's mutex.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from fencelock import options
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.request import AcquireRequest, RequestTemplate
from fencelock._core.objects.election import CANDIDATE_BYTES_MAX, ElectionKeys, mark
from fencelock._core.port import Port
from fencelock._handles.lock import Caller, Holds, Settings, describe
from fencelock.errors import NotAcquired


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


class LeadershipUse:
    """One thread or task that relies on a leadership; ``inside`` a body of ``with``.

    ``body``, ``cancelled`` and ``cancelling`` are those of ``Hold``.
    """

    __slots__ = ("body", "cancelled", "cancelling", "inside", "lease", "unit")

    def __init__(self, unit: object, lease: Hold, *, inside: bool) -> None:
        self.unit: object = unit
        self.lease: Hold = lease
        self.inside: bool = inside
        self.body: Any = None
        self.cancelled: bool = False
        self.cancelling: int = 0


class CandidateHolds(Holds):
    """The leadership of one candidate; its entry in the line contains its name."""

    __slots__ = ("_ending", "_uses", "campaigning", "cancels", "candidate", "election")

    def __init__(
        self,
        keys: ElectionKeys,
        settings: Settings,
        hold_type: type[Hold],
        candidate: str,
    ) -> None:
        self.cancels: bool = settings.options.on_lost == "cancel"
        if self.cancels:  # all bodies that rely on it, not one
            settings = settings._replace(options=settings.options._replace(on_lost=self._cancel))
        super().__init__(keys, settings, hold_type)
        self._uses: list[LeadershipUse] = []
        self._ending: Hold | None = None  # the last user is leaving it just now
        self.election: ElectionKeys = keys
        self.candidate: str = candidate
        self.campaigning: bool = False

    def request(self, port: Port, caller: Caller) -> AcquireRequest:
        """Return a fresh request by a thread or task."""
        settings = self.settings
        template = RequestTemplate(
            keys=self.keys,
            options=settings.options,
            client_channel=port.client_channel,
            ttl=settings.options.first_ttl(),
        )
        info = describe(caller, settings.label)[:-1] + b"," + mark(self.candidate)
        return AcquireRequest(template, port.new_id(), info)

    def leads(self) -> bool:
        """Return True if the candidate leads, as far as this process can prove."""
        hold = self.newest()
        return hold is not None and hold.remaining() > 0

    def join(self, unit: object, *, inside: bool) -> LeadershipUse | None:
        """Note that a thread or task relies on the leadership; None when there is none.

        Under the port's mutex.
        """
        hold = self.newest()
        if hold is None or hold is self._ending or hold.remaining() <= 0:
            return None
        return self.leadership_use(unit, hold, inside=inside)

    def leadership_use(self, unit: object, lease: Hold, *, inside: bool) -> LeadershipUse:
        """Note that a thread or task relies on this leadership. Under the port's mutex."""
        leadership_use = LeadershipUse(unit, lease, inside=inside)
        if inside or not self._campaigned(unit, lease):
            self._uses.append(leadership_use)
        return leadership_use

    def _campaigned(self, unit: object, lease: Hold) -> list[LeadershipUse]:
        of_unit = [each for each in self._uses if each.unit == unit and each.lease is lease]
        return [each for each in of_unit if not each.inside]

    def leave(self, unit: object) -> tuple[LeadershipUse | None, Hold | None]:
        """Note the end of the newest body of a thread or task, or else of any.

        Returns its use, and the hold to release when no other thread or task relies on it. Under
        the port's mutex.
        """
        bodies = [each for each in self._uses if each.inside and not each.lease.forked]
        if not bodies:
            return None, None
        leadership_use = ([each for each in bodies if each.unit == unit] or bodies)[-1]
        bodies.remove(leadership_use)
        self._uses.remove(leadership_use)
        if not any(
            each.unit == leadership_use.unit and each.lease is leadership_use.lease
            for each in bodies
        ):
            for each in self._campaigned(leadership_use.unit, leadership_use.lease):
                self._uses.remove(each)
        hold = self._hold_of(leadership_use.lease)
        relied_on = any(each.lease is leadership_use.lease for each in self._uses)
        if hold is None or relied_on or self.campaigning:
            return leadership_use, None
        self._ending = leadership_use.lease
        return leadership_use, hold

    def _hold_of(self, lease: Hold) -> Hold | None:
        return next((hold for hold in tuple(self._now()) if hold is lease), None)

    def remove(self, hold: Hold) -> bool:
        """Take out a hold; False when another thread was faster. Its bodies end by themselves."""
        removed = super().remove(hold)
        if removed and self._hold_of(hold) is None:
            for each in tuple(self._uses):
                if each.lease is hold and not each.inside:
                    self._uses.remove(each)
        return removed

    def take_this(self, hold: Hold, taken: list[Hold]) -> None:
        """Take out one hold; NotHeld when it was given up already."""
        if not self.take_out(hold, hold, taken):
            raise self.not_held()

    def _cancel(self, lease: Hold) -> None:
        """Cancel the bodies of a leadership that was lost."""
        for leadership_use in tuple(self._uses):
            if leadership_use.lease is lease and leadership_use.body is not None:
                leadership_use.cancelled = True
                leadership_use.body.cancel(f"lease of {lease.name!r} is lost")

    def begin(self) -> list[Hold]:
        """Note that the candidate campaigns; return the holds that it lost before, to release."""
        if self.campaigning:
            text = f"{self.candidate!r} campaigns for {self.keys.name!r} already"
            raise NotAcquired(text, **self.about())
        self.campaigning = True
        return [hold for hold in tuple(self._now()) if hold.lost and self.remove(hold)]

    def leading(self) -> Hold:
        """Return the hold of the leader; NotHeld when the candidate does not lead."""
        hold = self.newest()
        if hold is None:
            raise self.not_held()
        return hold
