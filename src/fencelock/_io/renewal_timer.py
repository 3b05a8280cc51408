"""The timer by which an asyncio client renews its leases, and looks whether it was suspended.

It is the counterpart of renewal_thread.py. There is a timer of the loop while there are leases or
waiters, and a task while something is due: an idle client has neither (I10).

Rules of this file:

- Nothing ends the renewals while there are leases (I16): whatever is raised in one, by the machine
  or by code of the user's, costs a pause, is logged, and the next one is set.
- The loop's clock stops while the machine is suspended: timers are compared with the real one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fencelock._core.deadlines import PING_SECONDS, PONG_SECONDS, QUIET_SECONDS, retry_delay
from fencelock._core.lock.maintain import Renewer
from fencelock._core.types import NoReply
from fencelock._io.connection_asyncio import PING, AsyncConnection
from fencelock._io.prompt_asyncio import PromptFlow
from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.log import log
from fencelock._runtime.mutex import catch_up

if TYPE_CHECKING:
    from fencelock._io.port_asyncio import AioPort


class RenewalTimer:
    """Has a port look at its leases when one is due, and at the clock in between."""

    def __init__(self, port: AioPort) -> None:
        self._port = port
        self.renewing: asyncio.TimerHandle | None = None
        self.renews_at: float = 0.0
        self._failures = 0  # to renew, one after the other; not of servers
        self._paused_until = 0.0  # after one of these
        self.ticking: asyncio.TimerHandle | None = None
        self._ask_at = 0.0  # whether the connection that listens is alive
        self._ahead = 0.0  # by how much our clock was ahead of the loop's at the last tick

    def set(self, when: float) -> None:
        """Set the timer of all leases, unless it is earlier."""
        if self._port.link.closed or (self.renewing is not None and when >= self.renews_at):
            return
        when = max(when, self._paused_until)
        if self.renewing is not None:
            self.renewing.cancel()
        self.renews_at = when
        self.renewing = self._port.loop.call_later(max(0.0, when - now()), self._due)

    def tick(self) -> None:
        """Check the clock while timers are set: the loop's clock stops during a suspension."""
        port = self._port
        ahead = now() - port.loop.time()
        if self.ticking is not None and ahead > self._ahead + REST_SECONDS / 4:
            self._woke_up()
        self._ahead, self.ticking = ahead, None
        if port.timed and not port.link.closed:
            self.ticking = port.loop.call_later(REST_SECONDS, self.tick)
            if port.link.listening:
                self._ask_ear(now())

    def cancel(self) -> None:
        """End both timers."""
        for timer in (self.renewing, self.ticking):
            if timer is not None:
                timer.cancel()

    def _ask_ear(self, current: float) -> None:
        """Ask the connection that hears revocations whether it is alive, if it is quiet.

        Not while each lease is renewed, or ends, so soon that it need not hear of one.
        """
        port = self._port
        mux = port.link.ear
        if mux is None or current < max(self._ask_at, mux.heard_at + QUIET_SECONDS):
            return
        self._ask_at = current + PING_SECONDS
        with port.mutex:
            lasts = port.renewals.lasts(self._ask_at)
        if lasts:
            within = port.trips.within(PONG_SECONDS)
            _ = port.spawn(self._heard(mux, current + within), "fencelock-ear")

    async def _heard(self, mux: AsyncConnection, until: float) -> None:
        """Look at all leases if a connection does not answer: it is retired, as any silent one."""
        try:
            await mux.request(PING, until)
        except NoReply:
            await Renewer(self._port).recheck()
            self.set(now())

    def _woke_up(self) -> None:
        """Do what became due while the machine was suspended; set the timers again for the rest."""
        self._port.woke_up()
        if self.renewing is not None:
            self.renewing.cancel()
            self.renewing = None
        self._set_next()

    def _set_next(self) -> None:
        """Set the timer for what is due next, if anything is."""
        with self._port.mutex:
            due = self._port.renewals.next_at()
        if due is not None:
            self.set(due)

    def _due(self) -> None:
        self.renewing, port = None, self._port
        try:
            flow = PromptFlow(port.loop, self._maintain())
            flow.go_on()
            port.spawn(flow.rest(), "fencelock-leases").add_done_callback(flow.end)
        finally:
            # It has taken out the due leases; others may become due before it ends.
            self._set_next()

    async def _maintain(self) -> None:
        """Do what is due. What the machine or the user's code raises costs a pause (I16)."""
        began, port = now(), self._port
        try:
            catch_up()
            await port.maintain()
            await port.warn_of_eviction()
            if (mux := port.link.mux) is not None and mux.sound and mux.silent_since(began):
                mux.retire()  # the next try must not wait on a connection that went silent
            self._failures = 0
        except Exception:
            self._failures += 1
            self._paused_until = now() + retry_delay(self._failures, 1.0)
            log.exception("renewing leases failed; retrying")
        finally:
            self._set_next()
