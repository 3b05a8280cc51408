"""Take the same lock again and again, with a lease that stays with the client (``linger``)."""

from __future__ import annotations

from contestants import LINGER, TASKS, THREADS
from report import Result, judged

from cases import Setting
from cases.uncontended import beside_our_lock

MOST = {THREADS: 0.16, TASKS: 0.12}  # of the floor


def threads(setting: Setting) -> list[Result]:
    """One thread."""
    return [_case("linger-threads", THREADS, setting)]


def tasks(setting: Setting) -> list[Result]:
    """One asyncio task, on the standard loop."""
    return [_case("linger-asyncio", TASKS, setting)]


def _case(case: str, face: str, setting: Setting) -> Result:
    """Measure it with its target: no peer keeps a lease.

    The first pairs of each sample send commands: others were measured meanwhile. The median leaves
    them out.
    """
    return judged(beside_our_lock(case, LINGER, face, setting), MOST[face])
