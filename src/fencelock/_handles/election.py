"""Shared state of election handles: the candidate's name, its hold, and the code that relies on it.

Rules of this file:

- The candidate leads, and several threads or tasks may rely on that: each body of ``with``, and
  each thread or task that campaigned. The leadership is given up when the last of them has left.
- ``resign`` and ``hand_over`` end it for all of them, as a loss does.
- Code that changes ``bodies`` together with the hold does so under the port's mutex.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from fencelock import options
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock._core.objects.election import CANDIDATE_BYTES_MAX, mark
from fencelock._handles.body import Body
from fencelock._handles.handle import Caller, Holds, describe
from fencelock._runtime import process
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.errors import NotAcquired
from fencelock.options import LeaseOptions

if TYPE_CHECKING:
    from fencelock._core.engine import Engine


class CandidateHolds(Holds):
    """The leadership of one candidate; its entry in the line contains its name.

    Its ``bodies`` are all that rely on it: also the threads and tasks that campaigned.
    """

    __slots__ = ("_ending", "campaigning", "cancels", "candidate")

    def __init__(
        self, keys: LockKeys, chosen: LeaseOptions, hold_type: type[Hold], candidate: object
    ) -> None:
        self.cancels: bool = chosen.on_lost == "cancel"
        if self.cancels:  # all bodies that rely on it, not one
            chosen = chosen._replace(on_lost=self._cancel)
        super().__init__(keys, chosen, hold_type)
        self._ending: Hold | None = None  # the last user is leaving it just now
        name = f"{socket.gethostname()[:100]}:{os.getpid()}"
        if candidate is not None:
            name = options.text("candidate", candidate)
            if len(name.encode(errors="replace")) > CANDIDATE_BYTES_MAX or not name.isprintable():
                most = f"have at most {CANDIDATE_BYTES_MAX} bytes"
                raise ValueError(f"candidate must be printable and {most}: {candidate!r}")
        self.candidate: str = name
        self.campaigning: Body | None = None

    def attempt(self, port: Engine, caller: Caller) -> Hold:
        """Return a fresh attempt by a thread or task."""
        info = describe(caller, self.options.label)[:-1] + b"," + mark(self.candidate)
        return self.attempt_on(self.new_terms(Terms, port), port, caller, info)

    def leads(self) -> bool:
        """Return True if the candidate leads, as far as this process can prove."""
        hold = self.newest()
        return hold is not None and hold.remaining() > 0

    def join(self, use: Body) -> bool:
        """Note that a thread or task relies on the leadership; False when there is none.

        Under the port's mutex.
        """
        hold = self.newest()
        if hold is None or hold is self._ending or hold.remaining() <= 0:
            return False
        self.rely(use, hold)
        return True

    def rely(self, use: Body, lease: Hold) -> None:
        """Note that a thread or task relies on this leadership. Under the port's mutex."""
        use.held = lease
        alike = [each for each in self.bodies.begun if each.unit == use.unit and each.held is lease]
        if use.entered or all(each.entered for each in alike):
            self.bodies.begun.append(use)

    def leave(self, use: Body) -> Hold | None:
        """Note the end of a body; return the hold to release if no other code relies on it.

        Done twice, it changes nothing. Under the port's mutex.
        """
        self.bodies.discard(use)
        left = tuple(self.bodies.begun)
        alike = [each for each in left if each.unit == use.unit and each.held is use.held]
        if use.entered and not any(each.entered for each in alike):
            for each in alike:
                self.bodies.discard(each)
        hold: Hold | None = next((one for one in self._now() if one is use.held), None)
        relied_on = any(each.held is use.held for each in self.bodies.begun)
        if hold is None or relied_on or self.campaigning is not None:
            return None
        self._ending = hold
        return hold

    def watched(self, body: Body) -> Body | None:
        """Return the body: a loss cancels each."""
        return body

    def take_back(self, body: Body) -> Sequence[Hold]:
        """End an interrupted body, or campaign; return what is left of it to release.

        Under the port's mutex.
        """
        if self.campaigning is body:
            self.campaigning = None
        made = body.attempt
        if made in self._now():  # it was elected just now
            body.held = made
        hold = None if body.held is None else self.leave(body)
        return (hold,) if hold is not None and self.remove(hold) else ()

    def forget(self, hold: Hold) -> None:
        """Forget who relies on a leadership that is over. Its bodies end by themselves."""
        for each in tuple(self.bodies.begun):
            if each.held is hold and not each.entered:
                self.bodies.discard(each)

    def take_this(self, hold: Hold, taken: list[Hold]) -> None:
        """Take out one hold; NotHeld when it was given up already."""
        if not self.take_out(hold, taken):
            raise self.not_held()

    def _cancel(self, lease: Hold) -> None:
        """Cancel the bodies of a leadership that was lost."""
        for use in tuple(self.bodies.begun):
            if use.held is lease:
                use.cancel(lease.name)

    def begin(self, use: Body) -> list[Hold]:
        """Note that the candidate campaigns; return the holds that it lost before, to release."""
        if self.campaigning is not None and self.campaigning.generation == process.mark[0]:
            text = f"{self.candidate!r} campaigns for {self.keys.name!r} already"
            raise NotAcquired(text, **self.about())
        self.campaigning = use
        return [hold for hold in tuple(self._now()) if hold.lost and self.remove(hold)]

    def leading(self) -> Hold:
        """Return the hold of the leader; NotHeld when the candidate does not lead."""
        hold = self.newest()
        if hold is None:
            raise self.not_held()
        return hold
