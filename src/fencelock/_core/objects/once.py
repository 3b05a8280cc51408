"""Run something once: start the run, finish it, and read its result.

A run is a hold of the lock of that name, so it is renewed, revoked, handed over and shown as any
lock is. Its result is kept next to the lock; while it is kept, no other run starts.

Rules of this file:

- One script decides which client runs, another keeps the result; both use the server's clock (I1).
- A grant with fence 0 is no grant: the run is done, and its result can be read.
- A run that ends is always recorded, whatever happens to the answer (I4): a caller that stops
  waiting for it has the request repeated in the background.
"""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from fencelock._core import events
from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import ONCE_KINDS, LockKeys, derived
from fencelock._core.lock.acknowledge import confirmed
from fencelock._core.lock.acquire import acquire, begin
from fencelock._core.lock.attempt import Grant
from fencelock._core.lock.hold import Hold, Registry
from fencelock._core.lock.in_line import queue, try_once
from fencelock._core.lock.release import lost_as, settled
from fencelock._core.lock.terms import milliseconds
from fencelock._core.seat import Seat
from fencelock._runtime.log import log
from fencelock.errors import FencelockError, ServerUnsuitable
from fencelock.scripts import ONCE_FINISH, ONCE_FORGET, ONCE_START, Script

if TYPE_CHECKING:
    from fencelock._core.engine import Engine
    from fencelock.status import HolderStatus

# A result is kept for this long after the run, however long the run took: waiters can read it, and
# hosts whose clocks are some seconds late still find it. With a short period it is a part of that.
FLOOR_SECONDS = 10.0
FLOOR_OF_PERIOD = 0.1


class FinishedOnce(NamedTuple):
    """A finished run, as it is kept on the server. Instants are the server's Unix time."""

    fence: int
    started: float
    ended: float
    form: str  # of the value; see once.py
    who: str
    value: bytes


def result_key(keys: LockKeys) -> bytes:
    """Return the key of the result, beside those of the lock."""
    return derived(keys.prefix.encode(), keys.lock, ONCE_KINDS)[0]


def question(keys: LockKeys) -> tuple[Script, tuple[bytes, ...]]:
    """Return what asks for the lock, and whether the run is done."""
    return ONCE_START, (*keys.grant, result_key(keys))


class Runs(NamedTuple):
    """The runs of one name, at the port of a call."""

    port: Engine
    keys: LockKeys

    async def start(self, attempt: Hold, timeout: float | None) -> Hold | FinishedOnce | None:
        """Start the run, or return its result; None when another client runs it and time is up.

        ``timeout`` as in ``acquire``. Raises as ``acquire``.
        """
        done: FinishedOnce | None = None

        async def take(one: Hold) -> Hold | None:
            nonlocal done
            grant = await self._granted(one)
            while grant is not None and not grant.fence:
                one.asks, one.stood, one.sent = None, False, False
                one.forget()
                done = await self.read(one.give_up_at)
                if done is not None:  # else it was forgotten just now
                    if one.event is not None:
                        one.event.end(events.REFUSED, reason="done")
                    return None
                grant = await self._granted(one)
            return None if grant is None else begin(self.port, one, grant)

        hold = await acquire(self.port, attempt, timeout, take=take)
        if hold is not None:
            hold.bound = True  # its run ends in the thread or task that starts it
        return hold or done

    async def _granted(self, attempt: Hold) -> Grant | None:
        """Ask, and wait; None when time is up. A run that is done is a grant with fence 0."""
        return await (try_once if attempt.at_once else queue)(self.port, attempt)

    @describes_errors
    async def finish(
        self, hold: Hold, registry: Registry, within: float, result: tuple[str, bytes]
    ) -> None:
        """Keep the result for ``within`` seconds from the start of the run, and end the run.

        Raises LeaseLost when another client may have started a run meanwhile; like ``ask`` when no
        answer came: then, as after a cancellation, the request is repeated in the background; and
        NotAcknowledged when the result is kept, but a failover may forget it.
        """
        (port, keys), (form, value) = self, result
        floor = min(FLOOR_SECONDS, within * FLOOR_OF_PERIOD)
        times = (milliseconds(within), milliseconds(floor))
        args = (hold.holder_id, hold.terms.client_channel, *times, form.encode(), value)
        done, answer = (ONCE_FINISH, (*keys.all, result_key(keys)), args), Seat()
        if hold.forked:  # a child leaves the body of its parent, which is still at it
            hold.check()
        if hold.lost:  # its holder is notified, though the result may be kept all the same
            log.info("the run of %r ends after its lease", keys.name)
        try:
            hold.retire(port)
            registry.remove(hold)
            until = port.now() + port.server_timeout
            reply, missing = await port.persist(
                lambda: confirmed(port, hold, done, until), until, answer
            )
        except BaseException as error:
            if not settled(error):
                hold.retire(port)
                registry.remove(hold)
                port.run_in_background(*done, answer.undo_connection)
            events.end_hold(hold, error)
            raise
        # Not before the answer: an undo would end the run without a result: another could start.
        hold.undo_owed(port)
        try:
            if reply != 1:
                raise lost_as(port, hold, reply[1])
        finally:
            events.end_hold(hold)
        if missing is not None:
            try:
                raise missing
            finally:
                del missing

    @describes_errors
    async def read(self, give_up_at: float = inf) -> FinishedOnce | None:
        """Return the result of the run; None when it is not done, or was forgotten."""
        key = result_key(self.keys)
        kept = await self.port.read((b"GET", key), key, give_up_at)
        return None if kept is None else parsed(kept)

    async def running(self) -> HolderStatus | None:
        """Return who is at the run, or None; raises like ``ask``."""
        from fencelock._core.look.show import Looker  # noqa: PLC0415 - few ask for it

        return (await Looker(self.port, self.keys.prefix).show(self.keys, 0)).holder

    async def run_by(self) -> HolderStatus | None:
        """Return the same; None also when the server does not answer.

        For a caller that knows already that it may not run: this only adds which process does.
        """
        try:
            return await self.running()
        except FencelockError as error:
            text = "the server does not say which process runs %r: %s"
            log.info(text, self.keys.name, error)
            return None

    @describes_errors
    async def forget(self) -> bool:
        """Drop the result, so that the next caller runs; return True if there was one.

        The request names the result by its fence: when it is repeated, because its answer was lost,
        it must not drop the result of a later run (I4).
        """
        done = await self.read()
        if done is None:
            return False
        await self.port.ask(ONCE_FORGET, (result_key(self.keys),), (b"%d" % done.fence,))
        return True


def parsed(kept: bytes) -> FinishedOnce:
    """Return a result as ``once_finish.lua`` wrote it; ServerUnsuitable if it did not."""
    try:
        fence, _, started, ended, form, size, rest = kept.split(b" ", 6)
        info, value = rest[: int(size)], rest[int(size) :]
        person = json.loads(info)
        who = f"{person['host']}:{person['pid']}" if "host" in person else ""
        times = int(started) / 1e6, int(ended) / 1e6
        return FinishedOnce(int(fence), *times, form.decode(), who, value)
    except (ValueError, TypeError, KeyError) as error:
        raise ServerUnsuitable(
            "the key of its result holds a value of another program:"
            " choose another name or key_prefix, or delete that key",
            code="WRONGTYPE",
        ) from error
