"""What a process has left is counted: threads, tasks, files, memory; and told as a leak."""

import asyncio
import mmap
import os
import threading
from pathlib import Path

from tests.faults.world import spawn
from verification.runs.faces import Tasks
from verification.runs.leaks import sample
from verification.soak import GROWTH_KB


def test_what_is_left_behind_is_counted():
    before = sample()
    face, go, never = Tasks("unix:///nowhere"), threading.Event(), asyncio.Event()
    spawn(go.wait)
    face.begin(never.wait())
    kept = mmap.mmap(-1, 8 * GROWTH_KB * 1024)  # memory that this process has not had before
    kept.write(bytes(len(kept)))
    with Path(os.devnull).open():
        after = sample(face)
    go.set()
    face.close()
    assert after["threads"] >= before["threads"] + 2  # the loop's own, too
    assert after["tasks"] >= before["tasks"] + 1
    assert after["files"] >= before["files"] + 1
    assert after["memory_kb"] >= before["memory_kb"] + len(kept) // 1024 - GROWTH_KB
