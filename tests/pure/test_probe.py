"""Probes: what a message may say, how long it gets, and which wait is refused."""

import json

import pytest

from fencelock import Blocked, Deadlock
from fencelock._core.deadlock.unit_waits import (
    FEW_STEPS,
    MESSAGE_BYTES_MAX,
    NEAR_STEPS,
    STEPS_MAX,
    PathProbe,
    Step,
    pack,
    unpack,
)


def step(number, **more):
    return Step(f"w{number}", number, f"lock{number}", '{"unit":"é"}', **more)


def probe(length, cycle=()):
    return PathProbe("w1 1", tuple(map(step, range(1, length + 1))), cycle)


def test_what_is_packed_is_unpacked_again():
    sent = probe(3, cycle=(step(1, holder="h", fence=7), step(2)))
    assert unpack(pack(sent)) == sent


def reversed_path(length):
    """Return the path of a wait that is younger than all others."""
    return probe(length)._replace(path=tuple(map(step, range(length, 0, -1))))


def test_a_path_has_a_bound():
    """Only the youngest wait may refuse itself, so the probes of others end early."""
    far, cycle = {"search": "w1 2+"}, tuple(map(step, range(STEPS_MAX)))
    bounds = (
        (FEW_STEPS, probe),
        (NEAR_STEPS, reversed_path),
        (STEPS_MAX, lambda length: reversed_path(length)._replace(**far)),
        (STEPS_MAX, lambda length: probe(length, cycle)._replace(**far)),
    )
    for bound, made in bounds:
        assert pack(made(bound)) is not None
        assert pack(made(bound + 1)) is None
    assert pack(PathProbe("s", (step(1)._replace(info="x" * MESSAGE_BYTES_MAX),))) is None


WHOLE = json.loads(pack(probe(1)))


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "{}", "7", "[1, 2, 3]", '["s", [], []]', '["s", [7], []]', "[" * 9999),
        json.dumps([7, *WHOLE[1:]]),
        json.dumps([WHOLE[0], [[*WHOLE[1][0][:-1], "7"]], []]),
        json.dumps([WHOLE[0], [[*WHOLE[1][0], 1]], []]),
        json.dumps([WHOLE[0], [["w", True, "a", "b", "c", 1]], []]),
        json.dumps([*WHOLE, 1]),
        "x" * (MESSAGE_BYTES_MAX + 1),
    ],
)
def test_what_is_no_probe_is_none(wrong):
    """Any user that may publish can send it."""
    assert unpack(wrong.encode()) is None
    assert unpack(b"\xff" + wrong.encode()) is None


def test_the_error_tells_the_cycle_in_words():
    cycle = [
        Blocked("a", host="h", pid=1, unit="one", label="shop"),
        Blocked("b", host="h", pid=2, unit="two"),
    ]
    error = Deadlock("a", cycle=cycle)
    assert "one (h:1, shop) waits for 'a', held by two (h:2)" in str(error)
    assert "two (h:2) waits for 'b', held by one (h:1, shop)" in str(error)
    assert error.cycle == tuple(cycle)
