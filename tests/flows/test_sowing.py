"""What the sown defects name is there, and each way to sow one changes what it says for a while."""

import asyncio

import pytest

from tests.flows.alphabet import NAMED
from tests.flows.decisions import DECISIONS
from tests.flows.sowing import (
    Fault,
    Statement,
    Without,
    always,
    find,
    given,
    nothing,
    script,
    several,
)
from verification.mutations.daily import all_defects, seeds

HERE = f"{__name__}:"


def sown():
    """Return every defect."""
    return [each.change for each in (*seeds(), *all_defects())]


@pytest.mark.parametrize("name", DECISIONS)
def test_each_decision_is_there(name):
    assert find(name)


def test_each_decision_is_named_by_a_defect_or_by_the_alphabet():
    named = {name for defect in sown() for name in defect.names}
    assert DECISIONS.keys() - named - NAMED == set()


def test_the_place_of_each_defect_is_there():
    for defect in sown():
        with defect.applied():  # else it says which place is gone
            pass


# -- the ways to sow, tried on these ---------------------------------------------------------------


class Door:
    limit = 1

    def lets_in(self, number):
        return number < self.limit

    @property
    def wide(self):
        return self.limit > 1

    async def opens(self, number, *, loudly=False):
        if self.lets_in(number) and not loudly:
            return ring(number)
        return None


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


def test_a_method_decides_otherwise():
    door = Door()
    with Fault(f"{HERE}Door.lets_in", always).applied():
        assert door.lets_in(5)
    assert not door.lets_in(5)
    with Fault(f"{HERE}Door.lets_in", given(limit=9)).applied():
        assert door.lets_in(5)
    assert door.limit == 1


def test_a_property_decides_otherwise():
    with Fault(f"{HERE}Door.wide", always).applied():
        assert Door().wide


def test_a_coroutine_decides_otherwise_at_once_or_with_something_to_await():
    async def opens(how):
        with Fault(f"{HERE}Door.opens", how).applied():
            return await Door().opens(0)

    assert asyncio.run(opens(nothing)) is None
    assert asyncio.run(opens(lambda real, self, number: real(self, number))) == "ring 0"
    assert asyncio.run(opens(lambda real, *args: real(*args, loudly=True))) is None


def test_who_imported_a_function_meets_the_defect():
    imported = ring
    with Fault(f"{HERE}ring", lambda real, number: real(number + 1)).applied():
        assert imported(1) == "ring 2"
    assert imported(1) == "ring 1"


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


def test_several_at_once():
    ways = (Fault(f"{HERE}Door.lets_in", always), Without(f"{HERE}ring", by=f"{HERE}Door.opens"))
    with several(*ways).applied():
        assert asyncio.run(Door().opens(5)) is None
        assert Door().lets_in(5)


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
