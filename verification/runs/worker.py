"""Takes turns at all objects, and logs every call; the same for both faces.

Each line of the log is one event, see ``history.History``. An operation is logged before it is
asked for, so that of a killed process it is known what may have been under way.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redis import Redis

from fencelock import FencelockError, LeaseLost
from fencelock._runtime.clock import now
from verification.runs.faces import acquire
from verification.runs.objects import SHORT, TTLS, Kind, Play

# A resource that keeps the highest fence and refuses older ones. It answers with the number of the
# accepted write, or with 0.
REGISTER = """
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
if tonumber(ARGV[1]) < last then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return redis.call('INCR', KEYS[2])
"""
UNTIL_IT_ENDS, FEW_OR_MANY = 10_000, (1, 1, 1, 1, 2, 60)


class Journal:
    """The log of this process and of its children: whole lines, appended."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._numbers = itertools.count(1)

    def say(self, event: str, **line: Any) -> None:
        os.write(self._file, json.dumps({"event": event, **line}).encode() + b"\n")

    def begin(self, do: str, on: str, **more: Any) -> str:
        number = f"{os.getpid()}-{next(self._numbers)}"
        self.say("begin", number=number, do=do, on=on, begun=now(), **more)
        return number

    def end(self, number: str, result: str, **more: Any) -> None:
        self.say("end", **{"number": number, "ended": now(), "result": result, **more})

    def failed(self, number: str, error: FencelockError) -> None:
        code = getattr(error, "code", "")
        name = f"{type(error).__name__} {code}".strip()
        self.end(number, "lost" if isinstance(error, LeaseLost) else "unknown", error=name)


class Worker:
    """Goes on until ``stop`` is set; stands aside, holding nothing, while ``go`` is not."""

    def __init__(self, face: Any, register: Redis, journal: Journal, play: Play, seed: int) -> None:
        self.face = face
        self.play = play
        self.journal = journal
        self.dice = random.Random(seed)
        self.stop, self.go, self.parked = threading.Event(), threading.Event(), threading.Event()
        self.go.set()
        self.lease: Any = None
        self._writes = 0
        self._register = register.register_script(REGISTER)
        self._pause = threading.Event()

    def run(self) -> None:
        self.face.work_here()
        while not self.stop.is_set():
            if not self.go.is_set():
                self.parked.set()
                self.go.wait()
                self.parked.clear()
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - what it may not raise is what is looked for
                self.journal.say("unexpected", text=repr(error))

    def _turn(self) -> None:
        dice = self.dice
        kind = dice.choices(self.play.kinds, [each.often for each in self.play.kinds])[0]
        self._writes, ttl, renew = self._manner()
        handle = kind.handle(self.face, ttl, renew=renew)
        once = kind.tries or dice.random() < 0.15
        timeout = None if once else dice.choice((0.05, 1.0, 5.0))
        cancel_after = dice.random() * 0.3 if timeout and dice.random() < 0.2 else None
        asking = Asking(dice.choice(kind.weights), timeout, cancel_after, renew)
        take(self.journal, kind, handle, asking, self._hold)
        if once:
            self._pause.wait(dice.random() * 0.02)

    def _manner(self) -> tuple[int, float, bool]:
        """Return how many writes are to be made in what lease: a few, many, or until it ends."""
        dice, scale = self.dice, self.play.scale
        if dice.random() < 0.25:
            return UNTIL_IT_ENDS, SHORT * scale, False
        return dice.choice(FEW_OR_MANY), dice.choice(TTLS) * scale, dice.random() < 0.8

    def _hold(self, kind: Kind, number: str, lease: Any) -> None:
        """Write, unless it is lost, and renew by hand perhaps."""
        self.lease = lease
        for _ in range(self._writes):
            if kind.writes:
                self._write(kind.on, lease)
            self.journal.say("seen", lease=number, deadline=lease.deadline)
            if lease.lost:
                break
            self._pause.wait(self.dice.random() * 0.04)
        if self.dice.random() < 0.2 and not lease.lost:
            renew(self.journal, kind, number, lease)
        self.journal.say("seen", lease=number, deadline=lease.deadline)
        self.lease = None

    def _write(self, on: str, lease: Any) -> None:
        order = self._register(keys=[on, "order"], args=[lease.fence])
        answer = {"accepted": order > 0, "order": order, "proved": not lease.lost}
        self.journal.say("write", on=on, fence=lease.fence, **answer)


Holding = Callable[[Kind, str, Any], None]


@dataclass(frozen=True)
class Asking:
    """How something is acquired: in one try without a timeout, and maybe not to its end."""

    weight: int = 1
    timeout: float | None = None
    cancel_after: float | None = None
    renewed: bool = False


def take(journal: Journal, kind: Kind, handle: Any, asking: Asking, hold: Holding) -> bool:
    """Acquire, hold and release; return True if it was granted."""
    weight, timeout = asking.weight, asking.timeout
    do = "try" if timeout is None else "acquire"
    number = journal.begin(do, kind.on, weight=weight, renewed=asking.renewed)
    try:
        granted = acquire(handle, asking.cancel_after, **kind.how(weight, timeout))
    except FencelockError as error:
        journal.failed(number, error)
        return False
    ended = now()
    if granted is None:
        journal.end(number, "cancelled")
        return False
    if not granted:
        journal.end(number, "refused" if timeout is None else "timeout")
        return False
    lease = handle.lease
    journal.end(number, "granted", ended=ended, fence=lease.fence, deadline=lease.deadline)
    try:
        if kind.make == "rlock":
            enter_again(journal, handle, lease, asking)
        hold(kind, number, lease)
    finally:
        give_back(journal, kind, handle, weight, number)
    return True


def enter_again(journal: Journal, handle: Any, lease: Any, asking: Asking) -> None:
    """Acquire what is held: it is the same lease, and stays when the inner hold ends.

    Only a lease that nobody renews is asked for again then, so only that can fail.
    """
    try:
        granted = handle.acquire(blocking=False)
        if not granted or handle.lease.fence != lease.fence:
            journal.say("unexpected", text=f"entered again: {granted}, {handle.lease}")
        handle.release()
    except FencelockError:
        if asking.renewed and not lease.lost:
            raise


def renew(journal: Journal, kind: Kind, lease_number: str, lease: Any) -> None:
    """Renew by hand."""
    number = journal.begin("renew", kind.on, lease=lease_number)
    try:
        lease.renew()
    except FencelockError as error:
        journal.failed(number, error)
    else:
        journal.end(number, "ok")


def give_back(journal: Journal, kind: Kind, handle: Any, weight: int, lease_number: str) -> None:
    """Release."""
    number = journal.begin("release", kind.on, lease=lease_number, weight=weight)
    try:
        kind.release(handle, weight)
    except FencelockError as error:
        journal.failed(number, error)
    else:
        journal.end(number, "ok")
