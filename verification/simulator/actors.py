"""What the processes of a scenario do: acquire, hold, release, in the words of the shipping flows.

A flow under test is named here once, in ``Flows``, so that a scenario can run with another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from fencelock._core.deadlines import validity
from fencelock._core.engine import Engine
from fencelock._core.keys import LockKeys
from fencelock._core.lock import acquire, release, renew
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock.errors import LeaseLost, NotHeld, OutcomeUnknown, QuorumNotReached, ServerError
from fencelock.options import LeaseOptions
from verification.simulator.monitor import Violation
from verification.simulator.network import Client
from verification.simulator.simulation import World

if TYPE_CHECKING:
    from verification.simulator.port import SimulatedPort

KEYS = LockKeys("", "lock")
GAVE_UP = (asyncio.CancelledError, KeyboardInterrupt)
# What a call ends with that no server, or no majority, answered.
UNANSWERED = (ServerError, OutcomeUnknown, QuorumNotReached)
# A call that was given a timeout may take this much longer (I13), and what rounding adds.
IN_TIME_SECONDS = 0.1 + 1e-9


def moves_for_too_long(error: Exception, timeout: float | None) -> bool:
    """Return True if a slot that was moving key by key took all the time that a call had."""
    return timeout is not None and isinstance(error, ServerError) and error.code == "TRYAGAIN"


@dataclass(frozen=True)
class Flows:
    """The flows under test; the shipping ones unless told otherwise."""

    acquire: Callable[..., Awaitable[Hold | None]] = acquire.acquire
    release: Callable[..., Awaitable[int]] = release.release
    maintain: Callable[..., Awaitable[None]] = Engine.maintain


class _Watch:
    """Shows the monitor each hold when it begins."""

    hold_type = Hold

    def __init__(self, actor: Actor) -> None:
        self.actor = actor

    def describe(self, _caller: object, /) -> bytes:
        """Return nothing: each request is described as it is made."""
        return b"{}"

    def add(self, hold: Hold) -> None:
        """Show it."""
        self.actor.world.monitor.holds_now(self.actor.client, hold)

    def remove(self, _hold: Hold) -> bool:
        """Return False: it keeps none."""
        return False

    def keeps(self, _hold: Hold) -> bool:
        """Return True: no other task releases one."""
        return True


class Actor:
    """One user of the lock in one process."""

    def __init__(self, world: World, client: Client, flows: Flows) -> None:
        self.world = world
        self.client = client
        self.port: SimulatedPort = client.port
        self.flows = flows

    def request(
        self, options: LeaseOptions, *, owner: bytes | None = None, left: float = inf
    ) -> Hold:
        """Return a fresh request, as a handle makes it; ``left`` until an instant, if given."""
        waiter = self.port.new_id()
        template = Terms(
            keys=KEYS,
            options=options,
            client_channel=self.port.client_channel,
            owned=owner is not None,
            ttl=min(left, options.first_ttl()),
            ends=self.port.now() + left,
        )
        return Hold(template, waiter, owner=owner)

    async def acquire(self, request: Hold, timeout: float | None) -> Hold | None:
        """Take the lock; None in vain, and when a fault kept the server from answering."""
        monitor = self.world.monitor
        monitor.asks(self.client, request)
        monitor.lines_up(self.client, request)
        asked_at, hold = self.port.now(), None
        try:
            request.unit, request.registry = self, _Watch(self)
            hold = await self.flows.acquire(self.port, request, timeout)
        except UNANSWERED as error:
            if not self.world.faulty and not moves_for_too_long(error, timeout):
                raise Violation("I12", f"without any fault: {error!r}") from error
        finally:
            monitor.asked(self.client, request, hold)
        if hold is None and timeout and timeout > 0 and monitor.is_punctual(self.client):
            self._in_time(asked_at + timeout)
        return hold

    def _in_time(self, give_up_at: float) -> None:
        if self.port.now() > give_up_at + IN_TIME_SECONDS:
            raise Violation("I13", f"an acquire ended {self.port.now() - give_up_at} s too late")

    async def release(self, hold: Hold) -> int | None:
        """Give the lock back, as a face does; None when the lease was lost, or nobody answered."""
        try:
            return await self.flows.release(self.port, hold)
        except LeaseLost as loss:
            proved = self.port.now() < hold.deadline
            if proved and not self.world.monitor.was_revoked(hold):
                raise Violation("I4", f"a release of a proved lease was refused: {loss}") from loss
        except UNANSWERED as error:
            if not self.world.faulty:
                raise Violation("I12", f"without any fault: {error!r}") from error
        return None

    async def renew(self, hold: Hold, ttl: float | None = None) -> bool:
        """Renew a lease as a face does; True when it was renewed."""
        asked_at, monitor = self.port.now(), self.world.monitor
        monitor.asks_to_renew(hold)
        try:
            hold.check()
            await renew.renew_now(self.port, hold, ttl)
        except (LeaseLost, NotHeld):
            return False
        except UNANSWERED as error:
            if not self.world.faulty:
                raise Violation("I12", f"without any fault: {error!r}") from error
            return False
        else:
            if ttl is not None and not self.world.faulty:
                monitor.lasts(hold, asked_at + validity(hold.within_limits(ttl, asked_at)))
            return True
        finally:
            monitor.was_answered(hold)

    def check(self, hold: Hold) -> bool:
        """Ask a lease as its holder does; True when it is proved."""
        try:
            hold.check()
        except (LeaseLost, NotHeld):
            return False
        return True

    async def hold_once(self, request: Hold, timeout: float | None, work: float) -> None:
        """Acquire, work, release; end quietly when cancelled."""
        try:
            hold = await self.acquire(request, timeout)
            if hold is None:
                return
            try:
                if work:
                    await self.port.sleep(self.port.now() + work)
            finally:
                await self.release(hold)
        except GAVE_UP:
            return
