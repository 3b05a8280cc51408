"""Which cases run daily: ``dev.py test`` runs them, and ``dev.py rest`` runs exactly the others.

One rule: a case waits for ``rest`` when it is marked ``slow`` or ``nightly``, or when its id names
more than the usual: another server than the newest, a topology, uvloop, a second play, or asyncio
where one face says enough.

- One face says enough where a test is marked ``one_face``, and for a world of the simulator that
  both faces have. It is threads; of a world, the face for which a fault is sown there.
- The files in ``EVERYWHERE``, of what a server or its connections could change, run daily on each
  topology, in threads.
- A world under a fault that is ``large`` takes seconds, and counts as marked ``slow``.
- A mark ``daily`` has a case run daily all the same, as a world has in which a fault is sown:
  nothing quicker finds what it finds.
- tests/integrations needs what only ``rest`` installs.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.book import PLAYS
from tests.faces import FACE, MEANS, THREADS
from tests.flows.seeds.locks import Seed
from tests.flows.worlds.locks import Scenario
from tests.servers import ServerBinary, binaries
from tests.topologies import Topology

EVERYWHERE = MEANS
MORE = {"uvloop", *PLAYS}


def nightly(item: pytest.Item) -> bool:
    """Return True if a case waits for ``rest``."""
    if "tests/integrations/" in item.nodeid:
        return True
    if item.get_closest_marker("daily"):
        return False
    if any(item.get_closest_marker(mark) for mark in ("slow", "nightly")):
        return True
    if item.get_closest_marker("one_face") and _face(item) not in {THREADS, None}:
        return True
    return any(_is_more(value, item) for value in _params(item))


def _is_more(value: Any, item: pytest.Item) -> bool:
    """Return True for a part of a case that is more than the usual."""
    if isinstance(value, Topology):
        everywhere = item.path.stem.removeprefix("test_") in EVERYWHERE
        return not (everywhere and _face(item) == THREADS)
    if isinstance(value, ServerBinary):
        return value != binaries()[0]
    if isinstance(value, Seed):
        return not value.daily and _is_large(value.scenario)
    if isinstance(value, Scenario):
        return _is_large(value)
    return isinstance(value, str) and value in MORE


def _is_large(world: Scenario) -> bool:
    """Return True for a world whose exploration takes seconds."""
    return world.large and bool(world.budgets)


def _face(item: pytest.Item) -> str | None:
    found = FACE.search(item.nodeid.partition("[")[2])
    return found[0] if found else None


def _params(item: pytest.Item) -> list[Any]:
    call = getattr(item, "callspec", None)
    return list(call.params.values()) if call else []
