"""Where the time of an uncontended acquire and release goes, for threads and for asyncio.

python benchmarks/where.py

Client and server share one core, as in the uncontended cases. The client is sampled by its
processor time; what a system call takes is counted to the line that calls it.
"""

from __future__ import annotations

import asyncio
import collections
import os
import re
import signal
from pathlib import Path
from time import monotonic, process_time
from types import FrameType
from typing import Self

from ours import Tasks, Threads
from servers import Server, serving

SECONDS = 8.0
SAMPLE_SECONDS = 0.001
TICKS = os.sysconf("SC_CLK_TCK")

# What a frame's "file:function" matches tells its group; the first that fits.
GROUPS = {
    "the kernel: send, receive, poll": r":(select|write|send|_receive|_read_ready__.*)$",
    "the event loop": r"/asyncio/",
    "the connection: packing, parsing, slots": r"/_io/(connection|wire)",
    "the port: which connection, timers": r"/(_io|_topology)/",
    "the schedule of renewals": r"/_core/(lock/(renew|maintain)|deadlines)",
    "the flows: acquire, release": r"/_core/",
    "the handle and the lease": r"/fencelock/",
}


class Profile:
    """Counts samples by group while it is entered."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()

    def __enter__(self) -> Self:
        signal.signal(signal.SIGPROF, self._take)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _take(self, _signal: int, frame: FrameType | None) -> None:
        if frame is not None:
            self.counts[group_of(frame)] += 1


def group_of(frame: FrameType) -> str:
    place = f"{frame.f_code.co_filename}:{frame.f_code.co_name}"
    return next((group for group, mark in GROUPS.items() if re.search(mark, place)), "else")


def server_seconds(server: Server) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def threads(server: Server) -> int:
    acquire, release = Threads(server.address).pair("bench:where")
    count, end = 0, monotonic() + SECONDS
    while monotonic() < end:
        acquire()
        release()
        count += 1
    return count


def tasks(server: Server) -> int:
    async def turns() -> int:
        acquire, release = Tasks(server.address).pair("bench:where")
        count, end = 0, monotonic() + SECONDS
        while monotonic() < end:
            await acquire()
            await release()
            count += 1
        return count

    return asyncio.run(turns())


def main() -> None:
    core = {min(os.sched_getaffinity(0))}
    with serving(None) as server:
        os.sched_setaffinity(0, core)
        os.sched_setaffinity(server.pid or 0, core)
        for face, turns in (("threads", threads), ("asyncio", tasks)):
            theirs, ours = server_seconds(server), process_time()
            with Profile() as profile:
                count = turns(server)
            theirs, ours = server_seconds(server) - theirs, process_time() - ours
            print(f"{face}: {(ours + theirs) / count * 1e6:.1f} us a pair")
            print(f"  {theirs / count * 1e6:5.1f} us  the server")
            total = sum(profile.counts.values())
            for group, seen in profile.counts.most_common():
                print(f"  {ours / count * 1e6 * seen / total:5.1f} us  {group}")


if __name__ == "__main__":
    main()
