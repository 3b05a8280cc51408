"""What a process has: threads, tasks, open files, memory; counted when it should be idle."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from pathlib import Path
from typing import Any

from fencelock._runtime.clock import now

IDLE_SECONDS = 5.0
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


def sample(face: Any = None, *, idle: tuple[int, int] | None = None) -> dict[str, int]:
    """Count what this process has, once it has no more threads and tasks than ``idle``.

    What waits to be used again, and what is under way in the background, gets some seconds to end.
    """
    gc.collect()
    pause, deadline = threading.Event(), now() + IDLE_SECONDS
    while idle is not None and now() < deadline:
        if threads() <= idle[0] and _tasks(face) <= idle[1]:
            break
        pause.wait(0.05)
    return {
        "threads": threads(),
        "tasks": _tasks(face),
        "files": sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1,
        "memory_kb": int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KB,
    }


def threads() -> int:
    """Return how many threads this process has, of whatever kind."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def _tasks(face: Any) -> int:
    """Return how many tasks the loop of the asyncio face has."""
    loop = getattr(face, "loop", None)
    if loop is None or loop.is_closed():
        return 0
    return int(face.run(_count()))


async def _count() -> int:
    return len(asyncio.all_tasks()) - 1
