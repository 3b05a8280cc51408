"""What users call says how it ends: which errors it raises, each with when.

The words are for people; that they are there, and name errors that exist, is checked here.
"""

import builtins
import inspect
import re

import pytest

import fencelock
from fencelock._runtime.must_await import MustAwait
from tests.test_public_surface import NAMES, members

ASYNC = [getattr(fencelock, f"Async{name}") for name in NAMES]
SYNC = [getattr(fencelock, name) for name in NAMES]
RAISES = re.compile(r"^Raises:\n((?: +.*\n?)+)", re.MULTILINE)
ENTRY = re.compile(r"^    (?=\S)", re.MULTILINE)
# Instead of a list: where it stands.
ELSEWHERE = re.compile(r"\b(as|see) (the end of )?``[\w. ]+``")
# What waits says for how long it may, or where that is said.
ENDS = re.compile(r"timeout|for ever|at once|ends? (within|by)|\b(as|see) ``", re.IGNORECASE)


def described(classes):
    """Yield each method that users call, with its class, and what it is called for threads."""
    for each in classes:
        for name in members(each):
            member = inspect.getattr_static(each, name)
            if name in {"__init__", "__repr__"}:
                continue
            function = member.fget if isinstance(member, property) else member
            if isinstance(function, MustAwait):
                function = function.__wrapped__
            if inspect.isfunction(function):
                yield each, name, function


def is_awaited(function):
    result = str(function.__annotations__.get("return", ""))
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or result.startswith("Awaitable")


ALL = [pytest.param(*each, id=f"{each[0].__name__}.{each[1]}") for each in described(SYNC + ASYNC)]
SAFE = {  # asynchronous by the language, and without an error of ours
    *("AsyncClient.__aenter__", "AsyncClient.__aexit__", "AsyncClient.aclose"),
    "AsyncBarrier.__aexit__",
}
SENDING = [
    pytest.param(*each, id=f"{each[0].__name__}.{each[1]}")
    for each in described(ASYNC)
    if is_awaited(each[2]) and f"{each[0].__name__}.{each[1]}" not in SAFE
]


def doc(function):
    return inspect.cleandoc(function.__doc__ or "")


def entries(text):
    """Return the errors of a docstring, each with when it is raised."""
    found = RAISES.search(text + "\n")
    told = [" ".join(one.split()) for one in ENTRY.split(found[1])] if found else []
    return [tuple(one.partition(": ")[::2]) for one in told if one]


@pytest.mark.parametrize(("owner", "name", "function"), ALL)
def test_everything_public_is_described(owner, name, function):
    assert doc(function).partition("\n")[0].endswith((".", ";", ":", "?"))


@pytest.mark.parametrize(("owner", "name", "function"), ALL)
def test_each_error_that_is_named_exists_and_says_when(owner, name, function):
    for names, when in entries(doc(function)):
        assert len(when.split()) > 2 or ELSEWHERE.search(when), names
        for error in names.split(", "):
            kind = getattr(fencelock, error, None) or getattr(builtins, error)
            assert issubclass(kind, BaseException)


@pytest.mark.parametrize(("owner", "name", "function"), SENDING)
def test_what_asks_the_server_says_which_errors_it_raises(owner, name, function):
    assert entries(doc(function)) or ELSEWHERE.search(doc(function))


@pytest.mark.parametrize(("owner", "name", "function"), SENDING)
def test_what_waits_says_how_it_ends(owner, name, function):
    if {"timeout", "blocking"} & {*inspect.signature(function).parameters}:
        assert ENDS.search(doc(function))
