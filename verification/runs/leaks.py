"""What a process has: threads, tasks, open files, memory; counted when it should be idle."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from pathlib import Path
from typing import Any

from fencelock.clock import now

IDLE_SECONDS = 5.0
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


def sample(face: Any = None, *, threads: int | None = None, tasks: int = 0) -> dict[str, int]:
    """Count what this process has, once there are no more threads and tasks than that.

    What waits to be used again, and what is under way in the background, gets some seconds to end.
    """
    gc.collect()
    pause, deadline = threading.Event(), now() + IDLE_SECONDS
    while threads is not None and now() < deadline:
        if _threads() <= threads and _tasks(face) <= tasks:
            break
        pause.wait(0.05)
    return {
        "threads": _threads(),
        "tasks": _tasks(face),
        "files": len(os.listdir("/proc/self/fd")) - 1,
        "memory_kb": int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KB,
    }


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _tasks(face: Any) -> int:
    """Return how many tasks the loop of the asyncio face has."""
    loop = getattr(face, "loop", None)
    if loop is None or loop.is_closed():
        return 0
    return int(face.run(_count()))


async def _count() -> int:
    return len(asyncio.all_tasks()) - 1
