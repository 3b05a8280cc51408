"""A network namespace for one server: its host, whose cable can be pulled. Needs root and ``ip``.

Programs of this host reach the server by its Unix socket, as if they ran beside it, and nobody
reaches it by the network once ``cut`` was called.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

from tests.servers import ServerBinary

# Private addresses: a network of two for each process that measures.
NETWORK = "10.250"


def possible() -> bool:
    """Return True if namespaces can be made here."""
    return os.geteuid() == 0 and shutil.which("ip") is not None and _run("netns", "list") == 0


class Namespace:
    """A host of its own, joined to this one by a cable."""

    def __init__(self) -> None:
        number = os.getpid() % 16384 * 4
        self.name = f"fencelock{os.getpid()}"
        self._cable = f"fl{os.getpid()}"
        self._here = f"{NETWORK}.{number // 256}.{number % 256 + 1}"
        self.address = f"{NETWORK}.{number // 256}.{number % 256 + 2}"

    def binary(self, binary: ServerBinary, folder: Path) -> ServerBinary:
        """Return the same server program, started inside."""
        start = folder / "start"
        start.write_text(f'#!/bin/sh\nexec ip netns exec {self.name} {binary.path} "$@"\n')
        start.chmod(0o700)
        return ServerBinary(binary.name, str(start), binary.release)

    def cut(self) -> None:
        """Pull the cable."""
        _must("link", "set", self._cable, "down")

    def __enter__(self) -> Self:
        inside = f"{self._cable}i"
        _must("netns", "add", self.name)
        _must("link", "add", self._cable, "type", "veth", "peer", "name", inside)
        _must("link", "set", inside, "netns", self.name)
        _must("addr", "add", f"{self._here}/30", "dev", self._cable)
        _must("link", "set", self._cable, "up")
        _must("-n", self.name, "addr", "add", f"{self.address}/30", "dev", inside)
        _must("-n", self.name, "link", "set", inside, "up")
        _must("-n", self.name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        _run("link", "del", self._cable)
        _run("netns", "del", self.name)


def _run(*words: str) -> int:
    done = subprocess.run(  # found in PATH by ``possible``
        [shutil.which("ip") or "ip", *words], capture_output=True, check=False
    )
    return done.returncode


def _must(*words: str) -> None:
    if _run(*words):
        raise OSError(f"ip {' '.join(words)} failed")
