"""Probes: what a message may say, how long it gets, and which wait is refused."""

import json

import pytest

from fencelock import Blocked, Deadlock
from fencelock._core.deadlock.unit_waits import (
    FEW_STEPS,
    MESSAGE_BYTES_MAX,
    NEAR_STEPS,
    NO_WAIT,
    STEPS_MAX,
    PathProbe,
    Step,
    UnitWait,
    UnitWaits,
    pack,
    unpack,
    youngest,
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


def test_the_second_round_sees_what_the_first_one_saw_or_strays():
    cycle = (step(1, holder="h", fence=7), step(2, holder="i", fence=8))
    second = PathProbe("s", (), cycle).extended(step(1)).blocked_by("h", 7)
    assert not second.strays()
    assert second.extended(step(1)).blocked_by("i", 8).strays()  # another wait
    assert second.extended(step(2)).blocked_by("i", 9).strays()  # another turn
    assert PathProbe("s", (), cycle).extended(step(1)).blocked_by("other", 7).strays()
    assert not PathProbe("s", ()).extended(step(3)).blocked_by("h", 7).strays()  # the first round


def test_a_path_passes_no_wait_twice():
    assert probe(2).passes_twice("w2")
    assert not probe(2).passes_twice("w3")


def test_a_cycle_behind_a_path_is_told_from_any_of_its_waits():
    tail = probe(5)
    assert [one.wait for one in tail.cycle_from("w3")] == ["w3", "w4", "w5"]
    second = PathProbe("s", (), tuple(map(step, range(1, 4))))
    assert [one.wait for one in second.cycle_from("w2")] == ["w2", "w3", "w1"]


def test_the_youngest_is_the_same_wherever_the_cycle_begins():
    a, b, c = (Step(name, at, "", "") for name, at in (("x", 5), ("z", 7), ("y", 7)))
    assert {youngest(each).wait for each in ((a, b, c), (b, c, a), (c, a, b))} == {"z"}


class Waiting:
    """Stands for the wait of a unit."""

    def __init__(self, *, stands=True):
        self.id, self.stands, self.before = b"w", stands, None


def test_a_wait_counts_while_it_stands():
    """An interrupt may leave its entry behind."""
    waits, wait = UnitWaits(), Waiting()
    waits.begin("unit", wait)
    assert waits.of("unit") is wait
    wait.stands = False
    assert waits.of("unit") is None
    waits.end("unit", wait)
    assert len(waits) == 0


def test_a_wait_inside_another_one_gives_the_unit_back_to_that():
    """A signal handler may wait for a lock while its thread waits for another one."""
    waits, outer, inner = UnitWaits(), Waiting(), Waiting()
    waits.begin("unit", outer)
    waits.begin("unit", inner)
    assert waits.of("unit") is inner
    waits.end("unit", inner)
    assert waits.of("unit") is outer


def test_a_probe_passes_a_wait_once():
    waits = UnitWaits()
    assert waits.passes("w 1 0", Waiting())
    assert not waits.passes("w 1 0", Waiting())
    assert waits.passes("w 1 1", Waiting())


def test_the_error_tells_the_cycle_in_words():
    cycle = [
        Blocked("a", host="h", pid=1, unit="one", label="shop"),
        Blocked("b", host="h", pid=2, unit="two"),
    ]
    error = Deadlock("a", cycle=cycle)
    assert "one (h:1, shop) waits for 'a', held by two (h:2)" in str(error)
    assert "two (h:2) waits for 'b', held by one (h:1, shop)" in str(error)
    assert error.cycle == tuple(cycle)


def test_a_wait_that_takes_no_part_is_never_due():
    assert isinstance(NO_WAIT, UnitWait)
    assert NO_WAIT.due == float("inf")
    assert NO_WAIT.cycle is None
