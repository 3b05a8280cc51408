"""Which cases wait for the night: each rule says so once, and ``tests/conftest.py`` applies them.

``python3 dev.py test`` runs a case that no rule keeps for the night. ``python3 dev.py rest`` runs
the others, and ``nightly`` both. So every case is run by one of the two, and none by both, except
that a world of the simulator under a fault is explored by one face, by turns: ``explore`` goes
through both.

- A test of a promise runs daily on the newest server, in threads and in asyncio.
- On another kind of server one face is enough daily: threads on the oldest server, and on each
  topology one of the two, by turns. The same holds for scenarios of the simulator, and for tests
  that are marked ``one_face``; the other face runs at night. What is marked ``either_face`` never
  runs with it: the flow is one, and the simulator explores it for both.
- How a client connects, waits, is notified and ends is tested daily on each kind of server; what
  else is promised on the newest and on one other, by turns.
- What differs in the means only (uvloop for asyncio's loop, TCP or TLS for a Unix socket) runs at
  night, except what is marked ``smoke``. Where the means change nothing it does not run at all: the
  ``conftest.py`` of tests/conformance, tests/tasks and tests/cli say where.
- What needs a framework, in ``tests/integrations``, runs at night: only ``rest`` installs them.
- A scenario that is played twice on the same clients (tests/conformance/book.py) runs at night,
  except those of the files in ``PLAYED_DAILY``, with one face.
- What is marked ``slow`` or ``nightly``, and a ``large`` scenario with a fault, runs at night,
  except what is marked ``daily``. So does a defect that only such a scenario shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest

from tests.conformance.book import PLAYS
from tests.faces import FACE, THREADS, has_turn, meets_all_means
from tests.flows.seeds.locks import Seed
from tests.servers import ServerBinary, binaries
from tests.topologies import TOPOLOGIES, Topology

FURTHER_MEANS = ("uvloop", "tcp", "tls")
# Whose first and second plays run daily: what is most often used again.
PLAYED_DAILY = frozenset({"exclusive", "renewal"})


def nightly(item: pytest.Item) -> bool:
    """Return True if a case waits for the night."""
    if needs_a_framework(item):
        return True
    if item.get_closest_marker("daily"):
        return False
    if by_second_play(item):
        return True
    if by_further_means(item) or takes_seconds(item):
        return item.get_closest_marker("smoke") is None
    return by_the_other_face(item) or by_another_kind(item)


def left_to_explore(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return one face of each world under a fault that has both: ``explore`` is enough for it."""
    from tests.flows.deep import planned  # noqa: PLC0415  # only the night needs it

    titles = {scenario.title for scenario in planned()}
    faces = Counter(FACE.sub("", item.nodeid) for item in items)
    return {
        item
        for item in items
        if faces[FACE.sub("", item.nodeid)] > 1 and not has_turn(item.nodeid)
        for value in _params(item)
        if _is_scenario(value) and value.budgets and value.title in titles
    }


def needs_a_framework(item: pytest.Item) -> bool:
    """Return True for a test of an integration."""
    return "tests/integrations/" in item.nodeid


def takes_seconds(item: pytest.Item) -> bool:
    """Return True for what is marked as slow, or kept for the night by a mark."""
    large = any(each.large and each.budgets for each in _scenarios(item))
    return large or any(item.get_closest_marker(name) for name in ("slow", "nightly"))


def by_second_play(item: pytest.Item) -> bool:
    """Return True for what belongs to a second play, unless it is daily; both plays go together."""
    play = next((value for value in _params(item) if value in PLAYS), None)
    if play is None:
        return False
    file = item.nodeid.partition("::")[0].rpartition("/test_")[2].removesuffix(".py")
    return file not in PLAYED_DAILY


def by_further_means(item: pytest.Item) -> bool:
    """Return True for another loop, or another way to the same server."""
    return any(value in FURTHER_MEANS for value in _params(item) if isinstance(value, str))


def by_the_other_face(item: pytest.Item) -> bool:
    """Return True where one face is enough, and this is the other one."""
    found = FACE.search(item.nodeid.partition("[")[2])
    if found is None:
        return False
    for value in _params(item):
        if isinstance(value, ServerBinary) and value != binaries()[0]:
            return value != binaries()[-1] or found[0] != THREADS
    by_turns = any(isinstance(value, Topology) or _is_scenario(value) for value in _params(item))
    return (by_turns or bool(item.get_closest_marker("one_face"))) and not has_turn(item.nodeid)


def by_another_kind(item: pytest.Item) -> bool:
    """Return True on another kind of server where one of all others is enough, by turns."""
    kind = next((each for each in _params(item) if _is_other_kind(each)), None)
    if kind is None or meets_all_means(item):
        return False
    here = [each for each in TOPOLOGIES if each.has(item.module.__name__)]
    others = [*filter(_is_other_kind, binaries()), *here]
    return kind != others[crc32(item.nodeid.partition("[")[0].encode()) % len(others)]


def _is_other_kind(value: Any) -> bool:
    is_older = isinstance(value, ServerBinary) and value != binaries()[0]
    return is_older or isinstance(value, Topology)


def _scenarios(item: pytest.Item) -> Iterator[Any]:
    """Yield what a case explores; for a sown fault, too, unless the daily tests must find it."""
    for value in _params(item):
        if _is_scenario(value):
            yield value
        elif isinstance(value, Seed) and not value.daily:
            yield value.scenario


def _is_scenario(value: Any) -> bool:
    """Return True for a scenario of the simulator, but not for a sown fault, which has one face."""
    return hasattr(value, "explore") and hasattr(value, "threads")


def _params(item: pytest.Item) -> list[Any]:
    call = getattr(item, "callspec", None)
    return list(call.params.values()) if call else []
