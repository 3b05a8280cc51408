"""Acquire and release a lock on a quorum of five servers, while nobody else wants it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from contestants import FIVE_SOCKETS, OURS, TASKS, THREADS
from crew import Crew
from measure import alternate
from report import MICROSECONDS, Result, judged, result
from servers import serving

from cases import Setting, muster, on_one_core
from cases.uncontended import CHUNK, probe, sample

NODES = 5
TARGET = 1.9
SEVERAL = ("pottery", "redlock-ng", "aioredlock")  # the peers that can ask several servers
ONE_ONLY = "locks on one server only"


@contextlib.contextmanager
def on_five(setting: Setting) -> Iterator[Setting]:
    """Lend the setting with five servers of our own, and with the peers that can use them."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(None)) for _ in range(NODES)]
        first, *more = [server.address for server in servers]
        yield setting._replace(
            address=first._replace(more=tuple(more)),
            server_pids=[server.pid for server in servers if server.pid is not None],
            peers=[name for name in setting.peers if name in SEVERAL],
        )


def threads(setting: Setting) -> list[Result]:
    """One thread."""
    return [_case("quorum-5", setting, THREADS)]


def tasks(setting: Setting) -> list[Result]:
    """One asyncio task."""
    return [_case("quorum-5-asyncio", setting, TASKS)]


def _case(case: str, setting: Setting, face: str) -> Result:
    absent = dict.fromkeys([name for name in setting.peers if name not in SEVERAL], ONE_ONLY)
    with on_five(setting) as five, Crew(1) as crew, on_one_core(crew, five):
        present, cannot = muster(crew, five, face, probe)
        for name in (FIVE_SOCKETS, OURS):
            crew.all(probe, five.who(name, face))

        def measure(name: str) -> float:
            taken: float = crew.call(0, sample, five.who(name, face), CHUNK)
            return taken

        plan = setting.plan(100, 20)
        samples = alternate(measure, FIVE_SOCKETS, OURS, present, plan)
    row = result(case, MICROSECONDS, samples, FIVE_SOCKETS, absent=absent | cannot)
    return judged(row, TARGET)
