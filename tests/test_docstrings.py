"""What users call says how it ends: which errors it raises, each with when.

The words are for people; that they are there, and name errors that exist, is checked here.
"""

import builtins
import inspect
import re

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


ALL = {f"{owner.__name__}.{name}": function for owner, name, function in described(SYNC + ASYNC)}
SAFE = {  # asynchronous by the language, and without an error of ours
    *("AsyncClient.__aenter__", "AsyncClient.__aexit__", "AsyncClient.aclose"),
    "AsyncBarrier.__aexit__",
}
SENDING = {
    name: function
    for name, function in ALL.items()
    if name.startswith("Async") and is_awaited(function) and name not in SAFE
}


def doc(function):
    return inspect.cleandoc(function.__doc__ or "")


def entries(text):
    """Return the errors of a docstring, each with when it is raised."""
    found = RAISES.search(text + "\n")
    told = [" ".join(one.split()) for one in ENTRY.split(found[1])] if found else []
    return [tuple(one.partition(": ")[::2]) for one in told if one]


def wrong_entries(text):
    """Yield the errors of a docstring that do not exist, or do not say when."""
    for names, when in entries(text):
        for error in names.split(", "):
            kind = getattr(fencelock, error, None) or getattr(builtins, error, None)
            says = len(when.split()) > 2 or ELSEWHERE.search(when)
            if not (says and isinstance(kind, type) and issubclass(kind, BaseException)):
                yield error


def test_everything_public_is_described():
    ends = {name: doc(function).partition("\n")[0][-1:] for name, function in ALL.items()}
    assert [name for name, end in ends.items() if end not in {".", ";", ":", "?"}] == []


def test_each_error_that_is_named_exists_and_says_when():
    wrong = {name: [*wrong_entries(doc(function))] for name, function in ALL.items()}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_what_asks_the_server_says_which_errors_it_raises():
    docs = {name: doc(function) for name, function in SENDING.items()}
    assert docs
    assert [
        name for name, text in docs.items() if not (entries(text) or ELSEWHERE.search(text))
    ] == []


def test_what_waits_says_how_it_ends():
    waits = {
        name: doc(function)
        for name, function in SENDING.items()
        if {"timeout", "blocking"} & {*inspect.signature(function).parameters}
    }
    assert waits
    assert [name for name, text in waits.items() if not ENDS.search(text)] == []
