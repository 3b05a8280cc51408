"""What a case is given, and which cases there are."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from contestants import ALL_OURS, PEERS, CannotRun
from crew import Crew, Who
from measure import Plan
from monitor import UNCOUNTED
from wire import Address

QUICK_SECONDS = 2.0


class Setting(NamedTuple):
    """One run: where, how long, and how much slower ours is made on purpose."""

    address: Address
    server_pids: Sequence[int] = ()  # of servers of our own
    quick: bool = False
    slow_us: int = 0
    peers: Sequence[str] = tuple(PEERS)

    def who(self, name: str, face: str, loop: str = "asyncio") -> Who:
        return Who(name, face, self.address, self.slow_us if name in ALL_OURS else 0, loop)

    def rounds(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def plan(self, full: int, quick: int, **more: Any) -> Plan:
        """Return the plan of a case; a quick one ends early on a slow machine."""
        seconds = QUICK_SECONDS if self.quick else math.inf
        return Plan(self.rounds(full, quick), seconds=seconds, **more)


def counted(setting: Setting) -> tuple[Setting, dict[str, str]]:
    """Return the setting without the peers whose commands cannot be counted, and why."""
    absent = {name: UNCOUNTED[name] for name in setting.peers if name in UNCOUNTED}
    return setting._replace(peers=[name for name in setting.peers if name not in absent]), absent


def muster(
    crew: Crew, setting: Setting, face: str, probe: Callable[..., object]
) -> tuple[list[str], dict[str, str]]:
    """Have every worker open every peer; return those that can run, and why the others cannot."""
    present: list[str] = []
    absent: dict[str, str] = {}
    for name in setting.peers:
        try:
            crew.all(probe, setting.who(name, face))
            present.append(name)
        except CannotRun as error:
            absent[name] = str(error)
    return present, absent


@contextmanager
def on_one_core(crew: Crew, setting: Setting) -> Iterator[None]:
    """Keep the one client process and the servers on one core, where the system can.

    With a core each, every question wakes an idle core, and every answer another: on some machines
    that takes five times as long as the two commands themselves, on others nothing, and it would
    make everybody look alike. A server that was given by its URL stays where it is.
    """
    if not setting.server_pids or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(setting.server_pids[0])
    core = max(before)
    _allow(setting.server_pids, {core})
    crew.all(stay_on, core)
    try:
        yield
    finally:
        _allow(setting.server_pids, before)


def _allow(pids: Sequence[int], cores: set[int]) -> None:
    for pid in pids:
        os.sched_setaffinity(pid, cores)


def stay_on(_worker: int, core: int) -> None:
    os.sched_setaffinity(0, {core})
