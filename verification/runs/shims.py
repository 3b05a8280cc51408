"""A server's wall clock, set at will, and the power that fails: two small libraries in C.

They are loaded before the server's own (LD_PRELOAD), so only that server sees them. Leases end by
the server's wall clock; its timers, and all of ours, are monotonic.
"""

from __future__ import annotations

import atexit
import functools
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
_FORM = "=qqqd"  # struct clock in clock.c


def why_not() -> str:
    """Return why the libraries cannot be had here, or an empty string."""
    if not sys.platform.startswith("linux"):
        return "needs LD_PRELOAD, as Linux has it"
    return "" if shutil.which("cc") else "no C compiler (cc)"


@functools.cache
def library(name: str) -> Path:
    """Build one of the libraries, once, and return where it is until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="fencelock-shim-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    built = folder / f"{name}.so"
    compile_it = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", str(built), f"{HERE}/{name}.c"]
    subprocess.run(compile_it, check=True)
    return built


class Clock:
    """The wall clock of a server that is started with ``environment``."""

    def __init__(self, folder: Path) -> None:
        path = folder / "clock"
        path.write_bytes(bytes(struct.calcsize(_FORM)))
        self._file = path.open("r+b")
        self._page = mmap.mmap(self._file.fileno(), struct.calcsize(_FORM))
        self._turn, self._rate = 0, 1.0
        self._real = self._shown = time.time_ns()
        self._tell()
        self.environment = {"RUNS_CLOCK": str(path)}

    def jump(self, seconds: float) -> None:
        """Set it forward, or back."""
        self._change(jump_ns=int(seconds * 1e9))

    def go(self, rate: float) -> None:
        """Let it go so many times as fast as the true clock from now on."""
        self._change(rate=rate)

    def close(self) -> None:
        """Give the page back; a server that still runs keeps its own."""
        self._page.close()
        self._file.close()

    def _change(self, *, jump_ns: int = 0, rate: float | None = None) -> None:
        now = time.time_ns()
        self._shown += int((now - self._real) * self._rate) + jump_ns
        self._real = now
        self._rate = self._rate if rate is None else rate
        self._tell()

    def _tell(self) -> None:
        for turn in (self._turn + 1, self._turn + 2):  # odd while the rest is written
            struct.pack_into("=q", self._page, 0, turn)
            if turn % 2:
                struct.pack_into("=qqd", self._page, 8, self._real, self._shown, self._rate)
        self._turn += 2


class Disk:
    """Knows how much of a server's files has reached the disk, and takes away the rest."""

    def __init__(self, folder: Path) -> None:
        self._note = folder / "synced"
        self.environment = {"RUNS_SYNCED": str(self._note)}

    def lose(self, folder: Path) -> int:
        """Cut the append-only files of a dead server to what was synced; return how much went.

        New and renamed files are taken for synced: a server is careful with those.
        """
        gone = 0
        synced = self._synced()
        for path in (each for each in folder.rglob("appendonly*") if each.is_file()):
            status = path.stat()
            kept = min(status.st_size, synced.get(status.st_ino, 0))
            gone += status.st_size - kept
            os.truncate(path, kept)
        return gone

    def _synced(self) -> dict[int, int]:
        if not self._note.exists():
            return {}
        lines = (line.split() for line in self._note.read_text().splitlines())
        return {int(inode): int(size) for inode, size in lines}
