"""A real server whose clock can be set while it runs; needs a C compiler."""

import atexit
import functools
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from tests import servers

SOURCE = Path(__file__).parent / "shift.c"


def compiler() -> str | None:
    """Return a C compiler of this machine, where a library can be preloaded: on Linux."""
    if sys.platform != "linux":
        return None
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@functools.cache
def library() -> Path:
    """Compile what is preloaded, once a run."""
    cc = compiler()
    assert cc is not None, "a C compiler is needed to set a server's clock"
    place = _room() / "shift.so"
    subprocess.run([cc, "-shared", "-fPIC", "-O1", "-o", place, SOURCE, "-ldl"], check=True)
    return place


def _room() -> Path:
    room = tempfile.mkdtemp(prefix="fencelock-ladder-")
    atexit.register(shutil.rmtree, room)
    return Path(room)


class ShiftedServer(servers.Server):
    """A server with a clock of its own."""

    def start(self) -> Self:
        """Start it with what sets its clock preloaded."""
        place = self.directory / "clock"
        place.write_bytes(bytes(8))
        with place.open("r+b") as file:
            self._clock = mmap.mmap(file.fileno(), 8)
        before = dict(os.environ)
        os.environ.update(LD_PRELOAD=str(library()), LADDER_CLOCK=str(place))
        try:
            return super().start()
        finally:
            os.environ.clear()
            os.environ.update(before)

    def shift(self, offset_us: int) -> None:
        """Set its clock ahead by so much."""
        self._clock[:] = struct.pack("=q", offset_us)
