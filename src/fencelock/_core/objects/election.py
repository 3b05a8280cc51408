"""Leader election: the leader holds the lock; the candidates are its queued waiters.

Rules of this file:

- Leadership is a lease: it ends here before it ends on the server (I2, I8).
- One script of a hand-over moves a waiting candidate to the head of the line and releases. When the
  candidate does not wait, nothing is released, and the lease is renewed again. A copy of the
  request that arrives after that answer releases nothing either: each request has its own id.
- A candidate is reported as not waiting only if no lost connection, its own or ours, may have cost
  it its place in line just before (I12).
- A leader that resigns while a hand-over is under way has resigned, whatever comes of the other:
  neither call reports a loss, and a hand-over that found no candidate resumes nothing.
- While a hand-over is under way its lease is in no schedule. One that is resumed finds out whether
  it was revoked meanwhile, and is given back if its client was closed.
- A leader that was elected or has resigned notifies the watchers. That is only a hint: they also
  check every two seconds, and when a lease should have ended (I6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencelock._core import events
from fencelock._core.deadlines import HEARTBEAT_SECONDS
from fencelock._core.description import described
from fencelock._core.error_messages import describes_errors
from fencelock._core.keys import ELECTION_KINDS, LockKeys, derived
from fencelock._core.lock.acquire import revoked_before
from fencelock._core.lock.hold import Hold, Registry, lose
from fencelock._core.lock.release import lost_as, settled
from fencelock._core.lock.waiting import EXPIRY_SLACK
from fencelock._core.objects.state_wait import ask_listening
from fencelock._core.seat import Seat
from fencelock._core.types import Call, Reply, closed
from fencelock.errors import ServerError
from fencelock.scripts import ELECTION_ANNOUNCE, ELECTION_HAND_OVER, ELECTION_WATCH, SHOW, ready
from fencelock.scripts.layout import words_of
from fencelock.status import Leader

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

CANDIDATE_BYTES_MAX = 128
LISTED = 100  # so many candidates are shown
SILENT = b"silent"  # of election_hand_over.lua
REFUSED = (0, b"")  # as its answer that the candidate does not wait: nothing was handed over
# A live candidate that is in line but does not listen, or that may have lost its place in a
# failover, is back within this time: it retries as often as we do.
RETURN_SECONDS = 3.0
ASK_AGAIN_SECONDS = 0.1


ready(ELECTION_ANNOUNCE, ELECTION_HAND_OVER)  # before anyone leads


def mark(candidate: str) -> bytes:
    """Return text that only this candidate's info can contain: quotes in it are escaped."""
    import json  # noqa: PLC0415 - as in description.py

    return b'"candidate":' + json.dumps(candidate, ensure_ascii=False).encode() + b"}"


class Contest:
    """An election at the port of a call, and what one that watches it saw last."""

    watcher: bytes = b""  # its id, once it watches
    first: bool = True  # it has seen nothing yet
    last: Leader | None = None

    def __init__(self, port: Engine, keys: LockKeys) -> None:
        self.port = port
        self.keys: LockKeys = keys
        self.watchers = derived(keys.prefix.encode(), keys.lock, ELECTION_KINDS)

    def announce(self) -> None:
        """Notify the watchers of a change in the background; never blocks, never raises."""
        self.port.run_in_background(ELECTION_ANNOUNCE, self.watchers, ())

    # -- handing over -------------------------------------------------------------------------

    @describes_errors
    async def hand_over(self, hold: Hold, registry: Registry, candidate: str) -> bool:
        """Hand the leadership over to a candidate; return False when that one does not wait.

        A candidate that may be reconnecting is waited for. Until then the leadership is kept, also
        after a cancellation.

        Raises LeaseLost when the lease had ended before, and like ``ask`` when no answer came:
        then, as after a cancellation of the request, the leadership goes to the next waiter.
        """
        port = self.port
        give_up_at = port.now() + min(RETURN_SECONDS, port.server_timeout)
        disturbed = False
        while True:
            last = port.now() >= give_up_at
            asked = Seat()
            words = (mark(candidate), b"1" if last else b"0", port.new_id())
            args = (hold.holder_id, hold.terms.client_channel, *words)
            offer = (ELECTION_HAND_OVER, self.keys.all, args)
            reply = await self._offer(hold, registry, offer, asked)
            if reply[0] != 0:
                try:
                    self._judge(hold, reply, repeated=asked.sent)
                finally:
                    events.end_hold(hold)
                return True
            if port.lines.closed:  # this leadership has ended with its client
                raise closed()
            disturbed = disturbed or asked.tries > 0 or reply[1] == SILENT
            if last or not disturbed:
                return False
            await port.sleep(port.now() + ASK_AGAIN_SECONDS)

    async def _offer(self, hold: Hold, registry: Registry, offer: Call, asked: Seat) -> Reply:
        """Request a hand-over once; after a refusal, renew the lease again."""
        port = self.port
        hold.check()
        until = min(port.now() + port.server_timeout, hold.deadline)
        reply: Reply = None
        try:
            hold.retire(port)
            reply = await port.ask(*offer, until, asked=asked)
        except ServerError as refused:
            reply = REFUSED if settled(refused) else None
            raise
        finally:
            resigned = not registry.keeps(hold)
            if reply is None:  # it may have run
                registry.remove(hold)
                hold.release_in_background(port)
            elif reply[0] == 0:
                self._resume(hold, registry)
            else:
                registry.remove(hold)
                hold.undo_owed(port)
        if resigned and reply[0] != 1:
            hold.check()
        return reply

    def _resume(self, hold: Hold, registry: Registry) -> None:
        """Renew the lease again, at once, unless another thread or task has resigned."""
        port = self.port
        with port.mutex:
            leads = registry.keeps(hold)
            if leads:
                hold.resume(port)
        if not leads:
            return
        port.track(hold, port.now())
        revoked_before(port, hold)
        if port.lines.closed:  # what gives back all did not find it
            lose(port, hold, "closed", port.now())
            hold.release_in_background(port)

    def _judge(self, hold: Hold, reply: Reply, *, repeated: bool) -> None:
        if reply[0] != 1 and not repeated:
            raise lost_as(self.port, hold, reply[1])

    # -- looking ------------------------------------------------------------------------------

    @describes_errors
    async def leader(self) -> Leader | None:
        """Return the present leader, or None."""
        return _leader(await self.port.ask(*self._watch(), reads=True))

    @describes_errors
    async def candidates(self) -> list[str]:
        """Return the waiting candidates in the order of the line; the first hundred."""
        _, shown = await self.port.ask(SHOW, self.keys.grant, (LISTED,), reads=True)
        return [_told(words_of("entry", entry)["info"]).candidate for entry in shown[5][::2]]

    def _watch(self, *watcher: bytes) -> Call:
        """Return the request that asks who leads; with an id and a channel, it also watches."""
        return ELECTION_WATCH, (*self.keys.renew, *self.watchers), watcher

    @describes_errors
    async def next_change(self, give_up_at: float) -> bool:
        """Wait until the leader is not the ``last`` one; return False at ``give_up_at``.

        The first call returns after the first answer. Raises like ``ask``.
        """
        port = self.port
        self.watcher = self.watcher or port.new_id()
        seat = Seat.of(self.keys, self.watcher)

        try:
            while True:
                until = port.answer_by(port.now(), give_up_at)
                ends = until if self.first else max(until, give_up_at)
                asked_at, reply = await ask_listening(
                    port, seat, until, lambda: self._watch(self.watcher, seat.channel), ends
                )
                seen = _leader(reply)
                if self.first or seen != self.last:
                    self.first, self.last = False, seen
                    return True
                heartbeat_at = asked_at + HEARTBEAT_SECONDS
                if reply[1] >= 0:
                    heartbeat_at = min(heartbeat_at, asked_at + reply[1] / 1000 + EXPIRY_SLACK)
                await port.wait(seat, min(heartbeat_at, give_up_at))
                if port.now() >= give_up_at:
                    return False
        finally:
            port.close(seat)


def _leader(reply: Reply) -> Leader | None:
    holder, _, record = reply
    if not holder:
        return None
    words = words_of("record", record)
    if words.get("holder") != holder:
        return Leader("", 0, 0.0, "", 0)  # a program that is not fencelock
    fence = int(words["fence"])
    return _told(words["info"])._replace(fence=fence, since=fence / 1e6)


def _told(info: bytes) -> Leader:
    person = described(info)
    host, pid = str(person.get("host", "")), int(person.get("pid", 0))
    return Leader(str(person.get("candidate", f"{host}:{pid}")), 0, 0.0, host, pid)
