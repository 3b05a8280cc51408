"""What the sown defects name is there, and each way to sow one changes what it says for a while."""

import asyncio

import pytest

from tests.flows.alphabet import NAMED
from tests.flows.decisions import DECISIONS
from tests.flows.exploring import FURTHER
from tests.flows.sowing import (
    Fault,
    Statement,
    Without,
    find,
    nothing,
    script,
)
from verification.mutations.daily import all_defects, seeds

HERE = f"{__name__}:"


def sown():
    """Return every defect."""
    return [each.change for each in (*seeds(), *all_defects())]


@pytest.mark.parametrize("name", sorted(DECISIONS.keys() | NAMED))
def test_each_decision_is_there(name):
    assert find(name)


def test_each_decision_is_named_by_a_defect():
    named = {name for defect in sown() for name in defect.names}
    assert DECISIONS.keys() - named == set()


def test_the_place_of_each_defect_is_there():
    for defect in sown():
        with defect.applied():  # else it says which place is gone
            pass


def test_no_world_is_explored_further_but_for_a_sown_defect():
    assert FURTHER.keys() - {each.scenario.name for each in seeds()} == set()


# -- the ways to sow, tried on these ---------------------------------------------------------------


class Door:
    async def opens(self, number):
        return ring(number)


def ring(number):
    return f"ring {number}"


def rings(number):
    heard = [ring(each) for each in range(number)]
    if (
        heard
        and number > 1
    ):  # fmt: skip
        heard.append("all")
    elif number < 0:
        heard = ["none"]
    return heard


def test_an_effect_is_left_out_for_one_caller():
    with Without(f"{HERE}ring", by=f"{HERE}Door.opens").applied():
        assert asyncio.run(Door().opens(0)) is None
        assert rings(1) == ["ring 0"]
    with Without(f"{HERE}ring", by=f"{HERE}rings", answer="none").applied():
        assert rings(1) == ["none"]  # by what is inside of it, too
        assert asyncio.run(Door().opens(0)) == "ring 0"


@pytest.mark.parametrize(
    ("old", "new", "heard"),
    [
        ("heard and number > 1", "True", ["all"]),
        ("if heard and (number > 1):", "if number == 0:", ["all"]),
        ("elif number < 0:".removeprefix("el"), "if True:", ["none"]),
        ("heard.append('all')\n", "pass", []),
        ("return    heard", 'return "x"', "x"),
    ],
)  # fmt: skip
def test_a_statement_is_found_by_its_syntax(old, new, heard):
    with Statement(f"{HERE}rings", old, new).applied():
        assert rings(0) == heard
    assert rings(0) == []


def test_the_text_of_a_script_may_have_another_layout():
    changed = script("acquire", "if\n  redis.pcall('GET',", "if (")
    assert changed.swapped("if redis.pcall('GET', KEYS[1])") == "if ( KEYS[1])"


@pytest.mark.parametrize(
    "defect",
    [
        script("release", "no such text", ""),
        Statement(f"{HERE}rings", "heard.append('none')", "pass"),
        Statement(f"{HERE}rings", "if heard:", "if True:"),
        Fault(f"{HERE}no_such_function", nothing),
    ],
    ids=lambda defect: type(defect).__name__,
)
def test_a_place_that_is_gone_is_an_error(defect):
    with pytest.raises((LookupError, AttributeError)), defect.applied():
        pass
