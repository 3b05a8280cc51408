"""What handlers do under load while they hold a lock: they tell a referee, a file.

Each line is one write to the file's end, so the file has the order of the machine, whatever the
library knows. The one with the number ``HELD`` stays until its process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

TTL = 6.0  # long enough for a worker of a busy machine
PATIENCE = 90.0  # of those that wait in line
HELD = 40
STAY = 0.005
FOLDER = Path(os.environ.get("LOAD_FOLDER", "."))


def says(*words: object) -> None:
    with (FOLDER / "log").open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


@contextlib.contextmanager
def inside(name: str, number: int) -> Iterator[None]:
    says("in", name, number, os.getpid())
    try:
        yield
    finally:
        says("out", name, number, os.getpid())


def stays(number: int) -> bool:
    """Return True while this one is to be killed where it is."""
    return number == HELD and (FOLDER / "hold").exists()


def work(name: str, number: int) -> None:
    with inside(name, number):
        time.sleep(STAY)
        while stays(number):
            time.sleep(STAY)


async def awork(name: str, number: int) -> None:
    with inside(name, number):
        await asyncio.sleep(STAY)
        while stays(number):  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(STAY)
