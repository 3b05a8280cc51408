"""Whether a node of a Cluster that answered is its slot's master: what others say decides."""

import pytest

from fencelock._io.threads import run_blocking
from fencelock._runtime.clock import now
from fencelock._topology.slots import (
    MasterCheck,
    NodeAddress,
)

ONE, NEW, OTHER, THIRD = (NodeAddress("10.0.0.1", port) for port in range(7000, 7004))


class Clock:
    at = 100.0

    def __call__(self):
        return self.at


@pytest.fixture
def clock():
    return Clock()


def found(check, words, others=(OTHER, THIRD), replicas=()):
    """Inquire about ONE, with these words of others; return the result and who was asked."""
    asked = []

    async def named(node):
        asked.append(node)
        return words.get(node)

    return run_blocking(check.inquire(ONE, replicas, others, named)), asked


@pytest.mark.parametrize(
    ("words", "result", "asked"),
    [
        ({OTHER: ONE}, True, [OTHER]),
        ({OTHER: OTHER}, False, [OTHER]),  # it took its place
        ({OTHER: NEW, NEW: NEW}, False, [OTHER, NEW]),
        ({OTHER: NEW, NEW: ONE}, True, [OTHER, NEW]),  # the slot moved, and OTHER has not heard
        ({OTHER: NEW}, False, [OTHER, NEW]),  # whom it names is silent
        ({THIRD: ONE}, True, [OTHER, THIRD]),
        ({}, None, [OTHER, THIRD]),
    ],
)
def test_what_others_say(words, result, asked):
    check = MasterCheck()
    assert found(check, words) == (result, asked)
    assert check.covers(ONE, now()) is (result is True)
