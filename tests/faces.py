"""The two faces in the ids of cases, and where one of them is enough."""

import re
from zlib import crc32

import pytest

THREADS, TASKS = "threads", "asyncio"
FACE = re.compile(rf"\b({THREADS}|{TASKS}|tasks)\b")
# Files of tests/conformance of what another loop, or another server together with the other face,
# could change: how a client connects, waits, is notified and ends. What the scripts decide is the
# same.
MEANS = frozenset(
    {
        *("exclusive", "line", "renewal", "errors", "sources", "signals", "pushes"),
        *("closing_race", "shutdown", "fake_clients", "permissions", "sentinels"),
    }
)


def has_turn(case: str) -> bool:
    """Return True if it is the turn of the face that a case's id names.

    The rest of the id decides: of two cases that differ in the face, exactly one has its turn. So
    has one that names none.
    """
    turn = crc32(FACE.sub("", case).encode()) % 2
    named = FACE.findall(case.partition("[")[2])
    return not named or named[-1] in ((THREADS,), (TASKS, "tasks"))[turn]


def meets_all_means(item: pytest.Item) -> bool:
    """Return True for a quick test of what the means could change."""
    file = item.path.stem.removeprefix("test_")
    return file in MEANS and item.get_closest_marker("slow") is None
