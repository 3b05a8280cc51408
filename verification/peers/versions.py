"""What was measured: versions of the libraries, the server and Python."""

from __future__ import annotations

import platform
from importlib import metadata

from tests.servers import binaries

NAMES = {"redis": "redis-py"}
LIBRARIES = (
    *("fencelock", "redis", "python-redis-lock", "pottery", "redlock-ng"),
    *("aioredlock", "aioredis", "coredis", "redis-fifo-lock", "portalocker"),
)


def about() -> dict[str, object]:
    """Return it by name; a library that is not installed is left out."""
    found = {}
    for name in LIBRARIES:
        try:
            found[NAMES.get(name, name)] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "versions": found,
        "server": str(binaries()[0]),
        "python": platform.python_version(),
    }
