"""Who waits for others of its own client, and so does not stand in the server's line."""

from __future__ import annotations

from fencelock._io import process_ports


def waiting_locally(key: bytes) -> int:
    """Return how many waiters of this process wait for others of their client for a lock."""
    lines = [line for port in process_ports.everywhere() for line in list(port.lines.crowded)]
    return sum(len(line.waiting) for line in lines if line.terms.keys.lock == key)
