"""Which case runs when: ``dev.py test`` runs the daily ones, ``dev.py rest`` and ``nightly`` more.

One rule: a case is daily when there is nothing unusual about it. With one thing that is unusual it
waits for ``rest``; with two, or marked ``nightly``, for ``nightly``. These are unusual:

- a mark ``slow``; and for a world of the simulator a fault, if the world is ``large``: it takes
  seconds;
- another server than the newest, a topology, or uvloop;
- a second play (tests/conformance/book.py);
- asyncio where one face says enough: where a test is marked ``one_face``, and on a topology. Of a
  world of the simulator that both faces have it is threads; of one in which a fault is sown, the
  face that meets it.

Files in ``EVERYWHERE`` are of what a server or its connections could change: there a topology is
usual in threads, and asyncio is usual. A mark ``daily`` has a case run daily all the same, as a
world has in which a fault is sown: nothing quicker finds what it finds. tests/integrations needs
what only ``rest`` installs, but for the cases that are marked ``daily``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.book import PLAYS
from tests.faces import FACE, MEANS, THREADS
from tests.flows.seeds.locks import Seed
from tests.flows.worlds.locks import Scenario
from tests.servers import ServerBinary, binaries
from tests.topologies import Topology

DAILY, REST, NIGHTLY = "daily", "rest", "nightly"
EVERYWHERE = MEANS


def part(item: pytest.Item) -> str:
    """Return which part of the tests a case belongs to."""
    if item.get_closest_marker("nightly"):
        return NIGHTLY
    if item.get_closest_marker("daily"):
        return DAILY
    if "tests/integrations/" in item.nodeid:
        return REST
    unusual = sum(_unusual(item))
    return DAILY if not unusual else REST if unusual == 1 else NIGHTLY


def _unusual(item: pytest.Item) -> Iterator[bool]:
    """Yield what could be unusual about a case: whether it is."""
    values = _params(item)
    everywhere = item.path.stem.removeprefix("test_") in EVERYWHERE
    tasks = _face(item) not in {THREADS, None}
    topology = any(isinstance(value, Topology) for value in values)
    one_face = item.get_closest_marker("one_face") is not None
    yield item.get_closest_marker("slow") is not None or any(map(_is_large, values))
    yield topology and (tasks or not everywhere)
    yield tasks and (one_face or (topology and not everywhere))
    yield any(isinstance(value, ServerBinary) and value != binaries()[0] for value in values)
    yield any(isinstance(value, str) and value in PLAYS for value in values)
    yield "uvloop" in values


def _is_large(value: object) -> bool:
    """Return True for a world under a fault whose exploration takes seconds."""
    if isinstance(value, Seed):
        return not value.daily and _is_large(value.scenario)
    return isinstance(value, Scenario) and value.large and bool(value.budgets)


def _face(item: pytest.Item) -> str | None:
    found = FACE.search(item.nodeid.partition("[")[2])
    return found[0] if found else None


def _params(item: pytest.Item) -> list[Any]:
    call = getattr(item, "callspec", None)
    return list(call.params.values()) if call else []
