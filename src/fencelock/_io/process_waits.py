"""The waits of this process: its threads and tasks may each use several clients."""

from __future__ import annotations

from fencelock._core.deadlock.unit_waits import UnitWaits
from fencelock._core.port import Port
from fencelock._runtime import process
from fencelock._runtime.mutex import mutex

# By the generation of the process: in a child of a fork no thread waits yet.
_waits: dict[int, UnitWaits] = {}


def joined(port: Port) -> UnitWaits:
    """Return the waits of this process, and have them know a port."""
    with mutex():  # another thread may be looking through the ports
        waits = _waits.setdefault(process.generation, UnitWaits())
        waits.ports[port] = None
    return waits
