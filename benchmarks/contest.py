"""Many workers in a loop around one lock, for a while: what each process does and counts.

A shared page of memory proves mutual exclusion: whoever enters marks it, and finds it unmarked.
"""

from __future__ import annotations

import asyncio
import mmap
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

from contestants import TASKS, Pair, plant
from crew import Crew, Who, loop_of, pairs

PAGE_BYTES = mmap.PAGESIZE
INSIDE, LAST = 0, 1  # places in the page: somebody is inside; who was there last

LEAD_SECONDS = 0.3  # between the first acquisition and the first that counts
# After the end, until tasks that still wait are cancelled: everybody in line is served meanwhile,
# and a poller may take much longer.
GRACE_SECONDS = 1.0
GRACE_SECONDS_EACH = 0.004


class Contest(NamedTuple):
    """One round: who, around which lock, how many workers in each process, and when."""

    who: Who
    lock: str
    workers: int
    page: str
    begin: float
    end: float
    work_seconds: float = 0.0  # spent inside, beside the few steps that count


@dataclass
class Tally:
    """What one process counted between begin and end."""

    turns: list[int] = field(default_factory=list)
    total: int = 0  # acquisitions before begin and after end included
    changes: int = 0  # acquisitions by another worker than the one before
    overlaps: int = 0  # two inside at once: the lock failed
    longest: float = 0.0  # seconds from a worker's turn to its next

    def add(self, other: Tally) -> None:
        self.turns += other.turns
        self.total += other.total
        self.changes += other.changes
        self.overlaps += other.overlaps
        self.longest = max(self.longest, other.longest)

    @property
    def fairness(self) -> float:
        """Most turns over fewest; infinite when somebody had none."""
        return max(self.turns) / min(self.turns) if min(self.turns) else float("inf")

    @property
    def handed_over(self) -> float:
        return self.changes / max(1, sum(self.turns))


def name_of(who: Who, number: int = 0) -> str:
    return f"bench:contest:{who.name.replace(' ', '-')}:{number}"


@contextmanager
def shared_page() -> Iterator[str]:
    """Lend a file of zeros to be mapped by all."""
    with tempfile.NamedTemporaryFile(prefix="fencelock-bench-") as file:
        file.write(bytes(PAGE_BYTES))
        file.flush()
        yield file.name


def hold(
    crew: Crew,
    who: Who,
    workers: int,
    seconds: float,
    page: str,
    *,
    lead: float = LEAD_SECONDS,
    work: float = 0.0,
) -> Tally:
    """Run one round in all processes and return the sum of what they counted."""
    lock = name_of(who)
    plant(who.name, who.address, lock)
    begin = monotonic() + lead
    contest = Contest(who, lock, workers, page, begin, begin + seconds, work)
    total = Tally()
    for tally in crew.all(take_part, contest):
        total.add(tally)
    return total


# --- in the worker --------------------------------------------------------------------------------


def probe(worker: int, who: Who) -> None:
    """Open the contestant, and take and give a lock once."""
    lock = f"{name_of(who)}:probe:{worker}"
    plant(who.name, who.address, lock)
    (pair,) = pairs(who, lock, 1)

    async def once() -> None:
        await pair.acquire()
        await pair.release()

    if who.face == TASKS:
        loop_of(who).run_until_complete(once())
    else:
        pair.acquire()
        pair.release()


def take_part(worker: int, contest: Contest) -> Tally:
    """Run this process's workers until the end of the round."""
    made = pairs(contest.who, contest.lock, contest.workers)
    first_seat = 1 + worker * contest.workers
    run = _in_tasks if contest.who.face == TASKS else _in_threads
    with (
        Path(contest.page).open("r+b") as file,
        mmap.mmap(file.fileno(), PAGE_BYTES) as page,
        memoryview(page) as view,
        view.cast("I") as marks,
    ):
        return run(contest, made, first_seat, marks)


def _in_threads(
    contest: Contest, made: Sequence[Pair], first_seat: int, marks: memoryview
) -> Tally:
    tallies = [Tally([0]) for _ in made]
    errors: list[Exception] = []

    def work(pair: Pair, seat: int, tally: Tally) -> None:
        try:
            _thread_turns(contest, pair, seat, tally, marks)
        except Exception as error:  # noqa: BLE001  # raised again below, in the caller's thread
            errors.append(error)

    threads = [
        threading.Thread(target=work, args=(pair, first_seat + number, tallies[number]))
        for number, pair in enumerate(made)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return _sum(tallies)


def _sum(tallies: Sequence[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def _thread_turns(contest: Contest, pair: Pair, seat: int, tally: Tally, marks: memoryview) -> None:
    acquire, release = pair
    now = 0.0
    while now < contest.end:
        acquire()
        now = _enter(contest, seat, tally, marks, now)
        if contest.work_seconds:
            sleep(contest.work_seconds)
        _leave(seat, tally, marks)
        release()


def _enter(contest: Contest, seat: int, tally: Tally, marks: memoryview, previous: float) -> float:
    """Mark the page and count; the same few steps for everybody. ``previous``: its last turn."""
    if marks[INSIDE]:
        tally.overlaps += 1
    marks[INSIDE] = seat
    now = monotonic()
    tally.total += 1
    if contest.begin <= now < contest.end:
        tally.turns[0] += 1
        tally.changes += marks[LAST] != seat
        if previous >= contest.begin and now - previous > tally.longest:
            tally.longest = now - previous
    marks[LAST] = seat
    return now


def _leave(seat: int, tally: Tally, marks: memoryview) -> None:
    if marks[INSIDE] != seat:
        tally.overlaps += 1
    marks[INSIDE] = 0


def _in_tasks(contest: Contest, made: Sequence[Pair], first_seat: int, marks: memoryview) -> Tally:
    tallies = [Tally([0]) for _ in made]

    async def work(number: int) -> None:
        acquire, release = made[number]
        now = 0.0
        while now < contest.end:
            await acquire()
            now = _enter(contest, first_seat + number, tallies[number], marks, now)
            if contest.work_seconds:
                await asyncio.sleep(contest.work_seconds)
            _leave(first_seat + number, tallies[number], marks)
            await release()

    async def all_tasks() -> None:
        running = {asyncio.create_task(work(number)) for number in range(len(made))}
        until = contest.end - monotonic() + GRACE_SECONDS + GRACE_SECONDS_EACH * len(made)
        _, waiting = await asyncio.wait(running, timeout=until)
        for task in waiting:
            task.cancel()
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        errors = [one for one in outcomes if isinstance(one, Exception)]
        if errors:
            raise errors[0]

    loop_of(contest.who).run_until_complete(all_tasks())
    return _sum(tallies)
