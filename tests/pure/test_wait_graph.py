"""Who blocks whom, from what the server knows of all locks."""

import re

import pytest

from fencelock._core.look.graph import Unit, around, blocks, cycles, in_cycles
from fencelock.cli.wait_tree import tree
from fencelock.status import HolderStatus, LockStatus, WaiterStatus

FOREIGN = "a program that is not fencelock"


def held(name, holders, *waiters, limit=0):
    """Return a lock that one-letter units hold and wait for; a number after the letter: permits."""

    def who(text):
        return {"host": "h", "pid": 1, "unit": text[0], "permits": int(text[1:] or 0)}

    return LockStatus(
        name,
        held=True,
        kind="semaphore" if limit else "lock",
        limit=limit,
        holders=tuple(HolderStatus(**who(each)) for each in holders.split()),
        holding=len(holders.split()),
        waiters=tuple(
            WaiterStatus(place=place, waited=10.0 - place, **who(each))
            for place, each in enumerate(waiters, 1)
        ),
        waiting=len(waiters),
    )


def named_alike(number):
    return {"host": "h", "pid": 1, "unit": "worker", "unit_id": f"{number:x}"}


def edges(found):
    return {(each.waiter.unit, each.name, each.holder.unit) for each in found}


def drawn(found):
    """Return the tree with a dot for each step in, and a star for a unit that was seen above."""
    lines = [re.fullmatch(r"( *)h:1 (\w).*?( .see above.)?", line) for line in tree(found)]
    return ["." * (len(line[1]) // 2) + line[2] + "*" * bool(line[3]) for line in lines]


def test_each_waiter_waits_for_the_holder():
    found = blocks([held("a", "x", "y", "z"), held("b", "y", "w"), held("free", "x")])
    assert edges(found) == {("y", "a", "x"), ("z", "a", "x"), ("w", "b", "y")}
    assert all(each.certain for each in found)
    assert cycles(found) == []


def test_the_tree_has_below_each_unit_those_that_wait_for_it():
    found = blocks([held("a", "x", "y", "z"), held("b", "y", "w")])
    assert drawn(found) == ["x", ".y", "..w", ".z"]


def test_a_cycle_is_a_tree_too():
    found = blocks([held("a", "x", "y"), held("b", "y", "x", "w")])
    assert drawn(found) == ["x", ".y", "..x*", "..w"]
    (circle,) = cycles(found)
    assert [(each.waiter.unit, each.name) for each in circle] == [("x", "b"), ("y", "a")]


def test_a_unit_that_waits_for_itself_is_a_cycle():
    (circle,) = cycles(blocks([held("a", "x", "x")]))
    assert [each.waiter.unit for each in circle] == ["x"]


def test_threads_of_one_name_are_not_one():
    """One holds what another program waits for, and another of its name waits for that program."""
    waits = held("a", "x")._replace(waiters=(WaiterStatus(place=1, **named_alike(1)),))
    holds = held("b", "x", "x")._replace(holders=(HolderStatus(**named_alike(2)),))
    assert cycles(blocks([waits, holds])) == []
    assert in_cycles(blocks([waits, holds])) == set()
    same = holds._replace(holders=(HolderStatus(**named_alike(1)),))
    assert len(cycles(blocks([waits, same]))) == 1


def test_the_holder_of_a_lease_that_is_kept_idle_blocks_no_waiter():
    assert blocks([held("a", "x", "y")._replace(held=False, kept=True)]) == []


def test_a_program_that_is_not_fencelock_blocks_its_waiters():
    found = blocks([held("a", "", "x"), held("b", "x", "y"), held("c", "", "z")])
    assert [line for line in tree(found) if not line.startswith(" ")] == [FOREIGN, FOREIGN]
    assert edges(found) == {("x", "a", ""), ("y", "b", "x"), ("z", "c", "")}


def test_each_cycle_is_told_once():
    found = blocks(
        [held("a", "x", "y"), held("b", "y", "x"), held("c", "u", "v", "x"), held("d", "v", "u")]
    )
    told = [[each.waiter.unit for each in circle] for circle in cycles(found)]
    assert told == [["u", "v"], ["x", "y"]]


@pytest.mark.parametrize(
    ("wanted", "certain"), [("y1", {"x": False, "w": False}), ("y2", {"x": True, "w": True})]
)
def test_a_holder_of_permits_is_certain_if_without_its_own_there_are_too_few(wanted, certain):
    found = blocks([held("s", "x1 w1", wanted, limit=2)])
    assert {each.holder.unit: each.certain for each in found} == certain


def test_a_waiter_behind_a_large_request_waits_for_what_that_one_waits_for():
    found = blocks([held("s", "x1", "y2", "z1", limit=2)])
    assert {each.waiter.unit: each.certain for each in found} == {"y": True, "z": True}


def test_what_is_uncertain_is_in_no_cycle():
    found = blocks([held("s", "x1 w1", "y1", limit=2), held("a", "y", "x")])
    assert cycles(found) == []


def test_around_a_lock_there_is_all_that_has_to_do_with_it():
    locks = [held("a", "x", "y"), held("b", "y", "z"), held("c", "u", "v")]
    assert {each.name for each in around(blocks(locks), "b")} == {"a", "b"}
    assert around(blocks(locks), "d") == []


def test_a_unit_says_who_it_is():
    assert str(Unit("web1", 7, "worker-1")) == "web1:7 worker-1"
    assert str(Unit("web1", 7, "")) == "web1:7"
