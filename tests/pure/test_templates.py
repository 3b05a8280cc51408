"""_handles/decorator.py: what is checked when a function is decorated, and what a call is named."""

import functools
import inspect
import itertools
import threading
import weakref
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from types import SimpleNamespace
from uuid import UUID

import pytest

import fencelock
from fencelock._handles.decorator import NameTemplate

CLIENT = fencelock.Client("redis://127.0.0.1:1")
AIO = fencelock.AsyncClient("redis://127.0.0.1:1")


def order(order_id, /, shop="main", *rest, day=None, lease=None, **more):
    return order_id, shop, rest, day, lease, more


def plan(template, function=order, *, lease=None):
    return NameTemplate(template, function, lease=lease, asynchronous=False)


@pytest.mark.parametrize(
    ("template", "args", "kwargs", "name"),
    [
        ("fixed", (1,), {}, "fixed"),
        ("{{fixed}}", (1,), {}, "{fixed}"),
        ("order:{order_id}", (7,), {}, "order:7"),
        ("{order_id}@{shop}", (7,), {}, "7@main"),
        ("{order_id}@{shop}", (7, "north"), {}, "7@north"),
        ("{order_id}@{shop}", (7,), {"shop": "south"}, "7@south"),
        ("{order_id.id}", (SimpleNamespace(id=8),), {}, "8"),
        ("{order_id[0][key]}", ([{"key": 9}],), {}, "9"),
        ("{rest[1]}", (1, 2, "a", "b"), {}, "b"),
        ("{more[extra]}", (1,), {"extra": 5}, "5"),
        ("{day:%Y-%m-%d}", (1,), {"day": date(2026, 11, 21)}, "2026-11-21"),
        ("{order_id:04}{shop!r}", (7,), {}, "0007'main'"),
    ],
)
def test_the_arguments_of_a_call_name_the_lock(template, args, kwargs, name):
    assert plan(template).call(args, kwargs).name == name


@pytest.mark.parametrize(
    ("template", "values", "name"),
    [
        ("order:{a}", ("1:2",), "order:1:2"),
        ("order:{a}:{b}", ("1", "2:3"), "order:1:2:3"),
        ("order:{a}:{b}", ("1:2", "3"), "order:1%3A2:3"),
        ("order:{a}:{b}", ("1%3A2", "3"), "order:1%253A2:3"),
        ("{a} to {b}/", ("x y", "z"), "x%20y to z/"),
        ("{a}{{:}}{b}", ("{", ":"), "%7B{:}:"),
        ("{a}%.{b}", ("1.", "%"), "1%2E%.%"),
        ("{a}{b:>02}", ("1:", "2"), "1:02"),
    ],
)
def test_a_value_cannot_make_the_name_of_others(template, values, name):
    def function(a, b=None):
        del a, b

    assert plan(template, function).call(values, {}).name == name


@pytest.mark.parametrize("template", ["{a}:{b}:{c}", "{a}::{b}%:{c}", "x{a}-a-{b}aa{c}"])
def test_no_two_calls_have_one_name(template):
    def function(a, b, c):
        del a, b, c

    parts = ["", ":", "a", "-", "%", "%3A", "%61", "a:", ":a", "%%", "--"]
    calls = list(itertools.product(parts, repeat=3))
    checked = plan(template, function)
    assert len({checked.call(each, {}).name for each in calls}) == len(calls)


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("", "name must have 1 to 1024 bytes"),
        ("x" * 1025, "name must have 1 to 1024 bytes"),
        ("{}", "has no name"),
        ("{0}", "has no name"),
        ("{order}", "not a parameter of the function; it has: order_id, shop"),
        ("{extra}", "not a parameter of the function"),
        ("{shop._secret}", "private"),
        ("{shop.__class__}", "private"),
        ("{shop:{day}}", "a field within"),
        ("{shop", "'{shop': "),
        ("shop}", "'shop}': "),
    ],
)
def test_a_template_that_cannot_work_is_refused_when_it_decorates(template, complaint):
    with pytest.raises(ValueError, match="name") as refused:
        CLIENT.locked(template)(order)
    assert complaint in str(refused.value)


def test_a_template_that_is_no_text_is_refused():
    with pytest.raises(TypeError, match="name must be str"):
        CLIENT.locked(7)(order)


class Named:
    def __init__(self, tags=(), inner=None):
        self.tags = set(tags)
        self.inner = inner

    def __str__(self):
        return "{named}"


class Slotted:
    __slots__ = ("tags",)

    def __repr__(self):
        return f"<Slotted {self.tags}>"


@dataclass
class Order:
    number: int
    tags: object = None


def slotted(tags):
    made = Slotted()
    made.tags = tags
    return made


DIFFERENT = {
    "the default repr": object(),
    "a function": order,
    "a method": SimpleNamespace().__init__,
    "a lambda": lambda: 1,
    "a set": {"a", "b"},
    "a set of one": {"a"},
    "an empty set": set(),
    "a frozenset": frozenset({"a", "b"}),
    "a set in a list": ["x", {"a", "b"}],
    "a set in a dict": {"tags": {"a", "b"}},
    "a set in a key": {(1, frozenset({"a", "b"})): 1},
    "a set in a tuple in a list": [(1, {"a", "b"})],
    "a set in a dataclass": Order(1, {"a", "b"}),
    "a set in a namespace in a list": [SimpleNamespace(tags={"a", "b"})],
    "a set in slots": slotted({"a", "b"}),
    "a generator": (each for each in "ab"),
    "an iterator": iter([1, 2]),
    "a map": map(str, [1]),
    "a memoryview": memoryview(b"ab"),
    "the default repr in a list": [object()],
    "the default repr in a dataclass": Order(1, object()),
    "a memoryview in a dict": {"data": memoryview(b"ab")},
    "a weak reference": weakref.ref(Order),
    "a lock": threading.Lock(),
}


@pytest.mark.parametrize("value", DIFFERENT.values(), ids=DIFFERENT)
@pytest.mark.parametrize("template", ["{shop}", "{shop!s}", "{shop!r}", "{shop!a}", "{more[x]}"])
def test_a_value_that_prints_differently_in_every_process_is_refused(value, template):
    with pytest.raises(TypeError, match=r"\{(shop|more\[x\])\} is .* differently in every process"):
        plan(template).call((1, value), {"x": value})


SAME = {
    "a text with an address": "it is at 0x7f",
    "a list": [1, "two", (3.0, None)],
    "a dict": {"a": [1], "b": {"c": 2}},
    "the keys of a dict": {"a": 1}.keys(),
    "bytes": b"\x00{",
    "a date": date(2026, 11, 21),
    "a decimal": Decimal("1.50"),
    "an id": UUID(int=7),
    "a path": PurePosixPath("/srv/{a}"),
    "a range": range(3),
    "a member": Enum("Color", "RED").RED,
    "a dataclass": Order(1, ["a"]),
    "a set that is not printed": Named({"a", "b"}),
    "an attribute that is not printed": Named(inner=object()),
}


@pytest.mark.parametrize("value", SAME.values(), ids=SAME)
def test_a_value_that_prints_the_same_everywhere_is_taken(value):
    assert plan("{shop}").call((1, value), {}).name == str(value)


def test_a_value_that_has_itself_is_taken():
    named = Named(inner=[])
    named.inner += [named, named.inner]
    assert plan("{shop}").call((1, named), {}).name == "{named}"


def test_only_the_text_that_is_used_counts():
    named = Named()
    assert plan("{shop}").call((1, named), {}).name == "{named}"
    with pytest.raises(TypeError, match="differently in every process"):
        plan("{shop!r}").call((1, named), {})


@pytest.mark.parametrize("value", ["", "x" * 1025])
def test_a_name_that_comes_out_wrong_is_refused(value):
    with pytest.raises(ValueError, match="name must have 1 to 1024 bytes"):
        plan("{shop}").call((1, value), {})


def test_arguments_that_do_not_fit_are_refused_as_the_function_would():
    with pytest.raises(TypeError, match="missing a required argument: 'order_id'"):
        plan("{shop}").call((), {})


def test_a_call_is_made_as_it_was_meant():
    call = plan("{shop}").call((1, "s", 2, 3), {"day": 4, "extra": 5})
    assert call.into(None) == (1, "s", (2, 3), 4, None, {"extra": 5})


# --- the lease ------------------------------------------------------------------------------------


def first(lease, order_id, *, day=1):
    return lease, order_id, day


def test_the_lease_goes_to_its_parameter_wherever_that_stands():
    assert plan("{order_id}", first, lease="lease").call((5,), {}).into("L") == ("L", 5, 1)
    assert plan("x", order, lease="lease").call((5,), {}).into("L")[4] == "L"


def test_callers_do_not_see_the_lease():
    decorated = CLIENT.locked("{order_id}", lease="lease")(first)
    assert str(inspect.signature(decorated)) == "(order_id, *, day=1)"
    with pytest.raises(TypeError, match="lease"):
        decorated(5, lease=1)


@pytest.mark.parametrize("lease", ["other", "rest", "more"])
def test_a_lease_needs_a_parameter(lease):
    with pytest.raises(ValueError, match=f"has no parameter '{lease}'"):
        CLIENT.locked("x", lease=lease)(order)


def test_a_template_cannot_use_the_lease():
    with pytest.raises(ValueError, match="not a parameter of the function; it has: order_id, day"):
        CLIENT.locked("{lease}", lease="lease")(first)


# --- which functions ------------------------------------------------------------------------------


async def aio(order_id):
    return order_id


def generates():
    yield 1


async def generates_too():
    yield 1


class Called:
    def __call__(self, order_id):
        return order_id


class Awaited:
    async def __call__(self, order_id):
        return order_id


ASYNC = [aio, functools.partial(aio), Awaited()]
SYNC = [order, functools.partial(order, 1), Called(), Called().__call__, len]


@pytest.mark.parametrize("function", ASYNC)
def test_threads_refuse_an_async_function(function):
    with pytest.raises(TypeError, match="is async: use AsyncClient"):
        CLIENT.locked("x")(function)
    AIO.locked("x")(function)


@pytest.mark.parametrize("function", SYNC)
def test_asyncio_refuses_a_function_that_is_not_async(function):
    with pytest.raises(TypeError, match="is not async"):
        AIO.locked("x")(function)
    CLIENT.locked("x")(function)


@pytest.mark.parametrize("client", [CLIENT, AIO])
@pytest.mark.parametrize("function", [generates, generates_too, functools.partial(generates)])
def test_generators_are_refused(client, function):
    with pytest.raises(TypeError, match="is a generator"):
        client.locked("x")(function)


@pytest.mark.parametrize("function", [classmethod(order), staticmethod(order)])
def test_a_decorator_in_the_wrong_place_is_told(function):
    with pytest.raises(TypeError, match=f"below @{type(function).__name__}"):
        CLIENT.locked("x")(function)


@pytest.mark.parametrize("function", [Called, 7, None])
def test_what_is_no_function_is_refused(function):
    with pytest.raises(TypeError, match="only functions can be decorated"):
        CLIENT.locked("x")(function)


def test_the_function_keeps_its_face():
    decorated = CLIENT.locked("x")(order)
    assert (decorated.__name__, decorated.__wrapped__) == ("order", order)
    assert inspect.iscoroutinefunction(AIO.locked("x")(aio))


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [CLIENT, AIO])
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"on_busy": "run"}, "on_busy must be"),
        ({"on_busy": "raise", "timeout": 0}, "timeout needs on_busy='wait'"),
        ({"ttl": 0}, "ttl must be"),
    ],
)
def test_an_option_that_cannot_work_is_refused_at_once(client, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        client.locked("x", **options)


@pytest.mark.parametrize("client", [CLIENT, AIO])
def test_a_decorator_without_its_name_is_refused_at_once(client):
    with pytest.raises(TypeError, match=r'write @client.locked\("'):

        @client.locked
        def function():
            """Be decorated by mistake."""

    with pytest.raises(TypeError, match="name must be str"):
        client.locked(7)


@pytest.mark.parametrize("client", [CLIENT, AIO])
def test_the_wait_of_once_is_no_lock_s_wait(client):
    with pytest.raises(TypeError, match="wait of once must be True or False"):
        client.once("x", within=1, wait=fencelock.Queue())


def test_a_once_shows_its_name_and_period():
    assert repr(CLIENT.once("x", within=60)) == "<fencelock.Once 'x' within=60>"
    assert repr(AIO.once("x", within=0.5)) == "<fencelock.AsyncOnce 'x' within=0.5>"


async def called_by_a_loop_only(*_):
    """Be no callback of threads."""


def test_no_thread_calls_a_coroutine_function():
    for make in (
        lambda client: client.lock("x", on_lost=called_by_a_loop_only),
        lambda client: client.election("x", on_elected=called_by_a_loop_only),
        lambda client: client.barrier("x", 2, called_by_a_loop_only),
    ):
        assert make(AIO)
        with pytest.raises(TypeError, match="must not be async here"):
            make(CLIENT)
