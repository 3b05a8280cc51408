"""What users can name is what ``public_surface.txt`` says: in both faces, word for word.

The text has each public class: its members, their parameters, defaults, types as
``typing.get_type_hints`` gives them, and the errors of calls that do not fit. A line that differs
between the faces stands there twice, with ``threads`` and ``asyncio`` before it.

``python -m tests.test_public_surface`` writes the text anew, for a change of the surface.
"""

import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from types import FunctionType, UnionType

import pytest

import fencelock
from fencelock._runtime.hints import OPTIONS, elsewhere
from fencelock._runtime.must_await import MustAwait
from tools.generate_reference import Written

TEXT = Path(__file__).with_name("public_surface.txt")
ASYNC = [name for name in fencelock.__all__ if name.startswith("Async")]
NAMES = [name.removeprefix("Async") for name in ASYNC]
# What Python says of a call that does not fit.
USUAL = "TypeError: {} (got an unexpected|takes .* positional)"
# What these take is what other libraries call an option, too.
WITH_HINTS = ("__init__", "rlock")


def surface() -> str:
    """Return the text."""
    names = textwrap.fill(" ".join(name for name in dir(fencelock) if name[0] != "_"), 96)
    parts = ["fencelock\n" + textwrap.indent(names, "    ")]
    for name in sorted(fencelock.__all__, key=lambda one: one.removeprefix("Async").lower()):
        found = getattr(fencelock, name)
        if name in NAMES:
            both = merged(class_lines(found), class_lines(getattr(fencelock, f"Async{name}")))
            parts.append("\n".join([f"{name}, Async{name}", *(f"    {one}" for one in both)]))
        elif name not in ASYNC:
            lines = class_lines(found) if isinstance(found, type) else function_lines(name, found)
            parts.append("\n".join([name, *(f"    {one}" for one in lines)]))
    return "\n\n".join(parts) + "\n"


def merged(sync: list[str], aio: list[str]) -> list[str]:
    """Return the lines of both faces, with a mark before those that one of them does not have."""
    theirs = [as_threads(line) for line in aio]
    both = []
    for what, i1, i2, j1, j2 in SequenceMatcher(None, sync, theirs, autojunk=False).get_opcodes():
        if what == "equal":
            awaited = ("await " if line.startswith("await ") else "" for line in aio[j1:j2])
            both += [mark + line for mark, line in zip(awaited, sync[i1:i2], strict=True)]
        else:
            both += [f"threads {line}" for line in sync[i1:i2]]
            both += [f"asyncio {line}" for line in aio[j1:j2]]
    return both


def as_threads(line: str) -> str:
    """Return a line of the face for asyncio as the other one has it."""
    for word, other in (
        (r"^await ", ""),
        (r"^aclose", "close"),
        (r"\bAsync(?=[A-Z])", ""),
        (r"\b__a(enter|exit|iter|next)__", r"__\1__"),
    ):
        line = re.sub(word, other, line)
    return line


def class_lines(cls: type) -> list[str]:
    """Return what users see of a class."""
    bases = [base.__name__ for base in cls.__mro__[1:-1] if is_public(base)]
    lines = [f"({', '.join(bases)})" if bases else "()"]
    for name in members(cls):
        if not any(same(base, cls, name) for base in cls.__mro__[1:-1] if is_public(base)):
            lines += member_lines(cls, name, inspect.getattr_static(cls, name))
    return lines


def same(base: type, cls: type, name: str) -> bool:
    """Return True if a class has a member from that base, where it stands."""
    return inspect.getattr_static(base, name, None) is inspect.getattr_static(cls, name)


def is_public(cls: type) -> bool:
    return not cls.__module__.startswith("fencelock") or cls.__name__ in fencelock.__all__


def members(cls: type) -> list[str]:
    """Return the names that a class or its bases of ours define, and that users may use."""
    ours = {name for base in cls.__mro__ if "fencelock" in base.__module__ for name in vars(base)}
    special = {name for name in ours if isinstance(getattr(cls, name, None), FunctionType)}
    found = (name for name in ours if name[0] != "_" or name in special & SPECIAL)
    return sorted(found, key=as_threads)


SPECIAL = {
    *("__init__", "__call__", "__repr__", "__enter__", "__exit__", "__aenter__", "__aexit__"),
    *("__iter__", "__next__", "__aiter__", "__anext__"),
}
UNCALLED = SPECIAL - {"__init__"}  # not by users


def member_lines(cls: type, name: str, member: object) -> list[str]:
    if any(elsewhere(base, name) for base in cls.__mro__):
        return [f"no {name}: {message(lambda: getattr(cls, name))}"]
    if isinstance(member, property):
        return [f"{name}: {shown(hints(member.fget).get('return'))}"]
    member = getattr(member, "__wrapped__", member) if isinstance(member, MustAwait) else member
    if isinstance(member, FunctionType):
        return function_lines(name, member, cls)
    declared = next((vars(b)["__annotations__"] for b in cls.__mro__ if name in notes(b)), {})
    return [f"{name}: {declared.get(name, '')}"] if name in declared else [name]


def notes(cls: type) -> dict[str, object]:
    return vars(cls).get("__annotations__", {})


def function_lines(name: str, function: FunctionType, cls: type | None = None) -> list[str]:
    if name == "__init__" and cls is not None and is_made_by_clients(cls):
        return [f"{cls.__name__}(): {message(cls)}"]
    lines = [f"{name}{signature(function)}"]
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        lines = [f"await {lines[0]}"]
    lines += [f"  or {signature(form)}" for form in overloads(function)]
    if cls is not None and cls.__name__.removeprefix("Async") in NAMES and name not in UNCALLED:
        lines += [f"  ! {one}" for one in errors(name, function, cls)]
    return lines


def is_made_by_clients(cls: type) -> bool:
    return "made by a client" in message(cls)


def signature(function: FunctionType) -> str:
    types, shaped = hints(function), inspect.signature(function)
    given = [
        one.replace(annotation=Written(shown(types[one.name])) if one.name in types else one.empty)
        for one in shaped.parameters.values()
    ]
    result = Written(shown(types["return"])) if "return" in types else shaped.empty
    return str(shaped.replace(parameters=given, return_annotation=result))


def hints(function: FunctionType) -> dict[str, object]:
    # ``errors`` imports this one for types only: a command of the shell need not load it.
    return typing.get_type_hints(function, localns={"HolderStatus": fencelock.HolderStatus})


def shown(hint: object) -> str:
    if typing.get_origin(hint) in {typing.Union, UnionType}:
        return " | ".join(shown(one) for one in typing.get_args(hint))
    if hint is type(None):
        return "None"
    text = inspect.formatannotation(hint) if isinstance(hint, type) else repr(hint)
    text = re.sub(r"\b\w+\.(?=\w)", "", text)
    return re.sub(r"^Unpack\[(.*)\]$", r"*\1", text)  # as Python 3.11 shows it


def overloads(function: FunctionType) -> list[FunctionType]:
    """Return the overloads, which are known by the name that the function was defined with."""
    defined = inspect.unwrap(function)
    forms = typing.get_overloads(
        FunctionType(defined.__code__, defined.__globals__, closure=defined.__closure__)
    )
    return list(forms)


def errors(name: str, function: FunctionType, cls: type) -> Iterator[str]:
    """Yield the errors of calls that do not fit, but for those that Python has for any function."""
    usual = USUAL.format(re.escape(f"{cls.__name__}.{name}()"))
    for call in (
        lambda: function(None, nonsense=1),
        lambda: function(None, *range(30)),
    ):
        told = message(call)
        if told.startswith("TypeError") and not re.match(usual, told):
            yield told
    if name in WITH_HINTS and "Client" in cls.__name__:
        yield from hinted(function)


def hinted(function: FunctionType) -> Iterator[str]:
    """Yield what is said of options that other libraries have, those alike together."""
    found: dict[str, list[str]] = {}
    for option in sorted({*OPTIONS, "labell"} - inspect.signature(function).parameters.keys()):
        told = message(lambda one=option: function(None, "name", **{one: 1}))
        found.setdefault(told.replace(repr(option), "this"), []).append(option)
    for told, options in found.items():
        yield f"{' '.join(options)}: {told}"


def message(call) -> str:
    """Return the error of a call that ends before anything is done."""
    try:
        coroutine = call()
    except (TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    if inspect.iscoroutine(coroutine):
        coroutine.close()
    return "no error"


OVERLOADED = [
    pytest.param(member, id=f"{face.__name__}.{name}")
    for face in (
        getattr(fencelock, f"{prefix}{name}") for name in NAMES for prefix in ("", "Async")
    )
    for name, member in inspect.getmembers(face, inspect.isfunction)
    if overloads(member)
]


@pytest.mark.parametrize("function", OVERLOADED)
def test_each_overload_has_the_kinds_and_defaults_of_its_function(function):
    parameters = inspect.signature(function).parameters
    for form in overloads(function):
        for one in inspect.signature(form).parameters.values():
            if one.name not in parameters:
                continue
            same = parameters[one.name]
            assert one.default in {inspect.Parameter.empty, ..., same.default}, one
            assert one.kind is same.kind, one


def test_the_overloads_are_found():
    assert len(OVERLOADED) >= 8


def test_the_public_surface_is_as_written():
    assert surface().splitlines() == TEXT.read_text().splitlines()


if __name__ == "__main__":
    TEXT.write_text(surface())
