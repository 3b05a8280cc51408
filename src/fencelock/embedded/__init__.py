"""The embedded server: started automatically when no server is configured.

A real Valkey or Redis server on a Unix socket, one for all processes of a user on a machine. The
first process that needs it starts it. It outlives them all and is never started twice.

    policy.py          whether an embedded server may be started here at all
    runtime_dir.py     the directory: the same one for every process of the user
    liveness_lock.py   the kernel's proof that a server is alive
    wire.py            one command to the server, and which process answers
    binaries.py        finding a server program
    launch.py          starting it, detached
    inheritance.py     what it would keep of the process that starts it
    start.py           ensure(): attach, or start exactly one
    control.py         status() and stop()
"""

from __future__ import annotations

from fencelock.embedded.runtime_dir import url

from .start import ensure

# What only operators need is imported on first use, so that taking a lock imports little.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .binaries import Binary, find_binary
    from .control import Status, status, stop

__all__ = ["Binary", "Status", "ensure", "find_binary", "status", "stop", "url"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import binaries, control

    return getattr(binaries if name in ("Binary", "find_binary") else control, name)
