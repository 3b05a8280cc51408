"""Write the reference of Python, docs/reference/python, from the docstrings.

python -m tools.generate_reference            write the pages that differ
python -m tools.generate_reference --check    name them, and fail if there are any; dev.py lint does

A page is about one object, or one module. It has the signatures for threads and what the docstrings
say. What they say of asyncio alone follows as "In asyncio".
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeGuard

import fencelock
from fencelock import options
from fencelock._runtime.hints import Elsewhere
from fencelock._runtime.must_await import MustAwait
from tools.generate_blocking import OF_ASYNCIO

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference" / "python"
CUT = "# the next block"
STUB = re.compile(r"^```python stub\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
HEAD = "<!-- Made of docstrings by tools/generate_reference.py: change those, and run it. -->"
# Page → its title, and what is on it: names of ``fencelock``, or a module.
CONTENTS: dict[str, tuple[str, tuple[str, ...] | str]] = {
    "client": ("Client", ("Client",)),
    "lock": ("Lock and RLock", ("Lock", "RLock")),
    "semaphore": ("Semaphore", ("Semaphore", "BoundedSemaphore")),
    "rwlock": ("Reader/writer lock", ("RWLock", "ReadLock", "WriteLock")),
    "multi": ("Several locks", ("MultiLock", "MultiLease")),
    "lease": ("Lease", ("Lease",)),
    "once": ("Once a period", ("Once", "Outcome")),
    "election": ("Election", ("Election", "Leader")),
    "signals": ("Event, latch and barrier", ("Event", "Latch", "Barrier")),
    "status": (
        "Status of locks",
        ("LockStatus", "HolderStatus", "WaiterStatus", "Blocked", "SignalStatus", "HistoryEntry"),
    ),
    "settings": ("Queue, Poll, Cohort, History", ("Queue", "Poll", "Cohort", "History")),
    "functions": ("Functions", ("shutdown", "to_thread")),
    "fences": ("Fence guards", "fencelock.fences"),
    "instrumentation": ("Instrumentation", "fencelock.instrumentation"),
    "embedded": ("Embedded server", "fencelock.embedded"),
    "redis-py": ("Stand-ins for redis-py's locks", "fencelock.compat.redis_py"),
    "redisson": ("Redisson's locks", "fencelock.compat.redisson"),
}
# Classes that users call; the others of ``fencelock`` are made by these.
CALLED = {"AsyncClient", "Client", "Cohort", "History", "Poll", "Queue"}
SPECIAL = ("__call__", "__enter__", "__aenter__")


# --- what there is --------------------------------------------------------------------------------


def names_of(what: tuple[str, ...] | str) -> tuple[ModuleType, list[str]]:
    """Return a module, and which of its names are on a page: of twins the one for threads."""
    if isinstance(what, tuple):
        return fencelock, list(what)
    module = import_module(what)
    names: list[str] = list(module.__all__)
    twins = {twin(name, names) for name in names}
    return module, [name for name in names if name not in twins]


def twin(name: str, names: list[str]) -> str | None:
    """Return the name that asyncio has in place of another, if there is one."""
    return next((each for each in (f"Async{name}", f"a{name}") if each in names), None)


def members(one: type) -> dict[str, object]:
    """Return the members of a class that users know, by name."""
    told = {"__init__": inspect.getattr_static(one, "__init__")} if is_called(one) else {}
    for name in dir(one):
        member = inspect.getattr_static(one, name)
        of_tuple = issubclass(one, tuple) and hasattr(tuple, name)
        private = name.startswith("_") and name not in SPECIAL
        if not (of_tuple or private or isinstance(member, Elsewhere)):
            told[name] = member
    return told


def is_called(one: type) -> bool:
    """Return True if users make an object of a class by calling it."""
    if getattr(fencelock, one.__name__, None) is one:
        return one.__name__ in CALLED
    return getattr(inspect.getattr_static(one, "__init__"), "__name__", "") == "__init__" and not (
        issubclass(one, tuple)
    )


# --- signatures -----------------------------------------------------------------------------------


class Written:
    """An annotation as a reader knows it: not quoted, and without the module that it comes from."""

    def __init__(self, annotation: object) -> None:
        text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        self.text = text.replace("options.", "")

    def __repr__(self) -> str:
        return self.text


def stub(function: FunctionType) -> str:
    """Return the signature of a function."""
    found = inspect.signature(function)
    # "Never" stands at a parameter that is there for a hint only.
    told = [bare(one) for one in found.parameters.values() if one.annotation != "Never"]
    returned = found.return_annotation
    returned = returned if returned is found.empty else Written(returned)
    form = "async def" if inspect.iscoroutinefunction(inspect.unwrap(function)) else "def"
    text = found.replace(parameters=told, return_annotation=returned)
    return f"{form} {function.__name__}{text}: ..."


def bare(one: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter as a reader knows it."""
    if one.default is options.CLIENT_DEFAULT:
        one = one.replace(default=Written("..."))
    return one if one.annotation is one.empty else one.replace(annotation=Written(one.annotation))


def class_stub(one: type, called: str) -> str:
    """Return the signatures of a class: its fields, its methods, and its properties."""
    types: dict[str, object] = {}
    for base in reversed(one.__mro__):
        types |= vars(base).get("__annotations__", {})
    fields, methods, properties = [], [], []
    for name, member in members(one).items():
        if isinstance(member, property) and isinstance(member.fget, FunctionType):
            properties += ["    @property", f"    {stub(member.fget)}"]
        elif isinstance(member, FunctionType):
            methods.append(f"    {stub(member)}")
        elif name in types:
            fields.append(f"    {name}: {Written(types[name])}")
    lines = [*fields, *methods, *properties] or ["    ..."]
    return "\n".join([f"class {called}:", *lines])


def formatted(pages: dict[str, str]) -> dict[str, str]:
    """Return pages whose signatures have their long lines broken; ruff is started once for all."""
    found = [code for page in pages.values() for code in STUB.findall(page)]
    command = [sys.executable, "-m", "ruff", "format", "--line-length=100", "-"]
    done = subprocess.run(
        command, input=f"\n{CUT}\n".join(found), capture_output=True, text=True, check=True
    )
    broken = iter(code.strip() for code in done.stdout.split(CUT))
    return {name: STUB.sub(lambda _: fenced(next(broken)), page) for name, page in pages.items()}


def fenced(code: str) -> str:
    """Return signatures as a block of Markdown."""
    return f"```python stub\n{code}\n```"


# --- docstrings -----------------------------------------------------------------------------------


def prose(text: str, links: dict[str, str]) -> str:
    """Return a docstring as Markdown, with what it raises as a list."""
    body, _, raised = text.partition("\nRaises:\n")
    told = [linked(body.strip(), links)]
    errors = re.split(r"\n(?=    \S)", raised.rstrip()) if raised else []
    for error in errors:
        names, _, when = error.strip().partition(": ")
        told.append(f"- {error_names(names)}: {linked(' '.join(when.split()), links)}")
    return "\n".join([told[0], *(["", "Raises:", "", *told[1:]] if errors else [])])


def error_names(names: str) -> str:
    """Return names of errors as links to what the page of errors says of them."""
    ours = set(fencelock.__all__)
    each = (
        f"[`{name}`](../errors.md#{name.lower()})" if name in ours else f"`{name}`"
        for name in names.split(", ")
    )
    return ", ".join(each)


def linked(text: str, links: dict[str, str]) -> str:
    """Return text whose code is Markdown's, and leads to what it names."""

    def code(found: re.Match[str]) -> str:
        words = found[1]
        target = links.get(words.removesuffix("()").removeprefix("Async"))
        return f"[`{words}`]({target})" if target else f"`{words}`"

    return re.sub(r"``([^`]+)``", code, text)


def of_asyncio(twin_doc: str) -> str:
    """Return what a docstring of asyncio says of asyncio alone."""
    return " ".join(" ".join(found[0].split()) for found in OF_ASYNCIO.finditer(twin_doc))


def bare_method(member: Any) -> Any:
    """Return the function of a method that must be awaited."""
    return member.__wrapped__ if isinstance(member, MustAwait) else member


def is_awaited(member: object) -> bool:
    """Return True for what asyncio's callers await."""
    function = member.fget if isinstance(member, property) else bare_method(member)
    if not isinstance(function, FunctionType):
        return False
    returned = str(inspect.signature(function).return_annotation)
    awaited = inspect.iscoroutinefunction(inspect.unwrap(function))
    return awaited or returned.startswith(("Coroutine", "Awaitable"))


# --- pages ----------------------------------------------------------------------------------------


def anchors() -> dict[str, str]:
    """Return where each class, function and method is, by its name as docstrings have it."""
    places: dict[str, str] = {}
    for page, (_, what) in CONTENTS.items():
        module, names = names_of(what)
        for name in names:
            one = getattr(module, name)
            inside = documented(one) if is_class(one) else []
            if module is fencelock:
                own = (name, *(f"{name}.{each}" for each in inside))
                places |= {each: f"{page}.md#{each.lower()}" for each in own}
    return places


def is_class(one: object) -> TypeGuard[type]:
    """Return True for a class that has parts of its own: errors have a page by hand."""
    return isinstance(one, type) and not issubclass(one, BaseException)


def documented(one: type) -> list[str]:
    """Return the methods and properties of a class that have a part of their own."""
    return [
        name
        for name, member in members(one).items()
        if isinstance(member, FunctionType | property) and not name.startswith("__")
    ]


def page(name: str, links: dict[str, str]) -> str:
    """Return a page of the reference, each signature on one line."""
    title, what = CONTENTS[name]
    module, names = names_of(what)
    parts = [HEAD, f"# {title}"]
    if isinstance(what, str):
        parts += [f"The module `{what}`.", prose(inspect.getdoc(module) or "", links)]
    for each in names:
        one = getattr(module, each)
        every = list(getattr(module, "__all__", ()))
        other = getattr(module, twin(each, every) or "", None)
        known = links if module is fencelock else {k: v for k, v in links.items() if k not in names}
        parts += (class_parts if is_class(one) else value_parts)(each, one, other, known)
    return "\n\n".join(part for part in parts if part) + "\n"


def class_parts(name: str, one: type, other: type | None, links: dict[str, str]) -> Iterator[str]:
    """Yield the parts of a class: itself, and each of its methods and properties."""
    yield heading(2, name, name, "" if other is None else f"`Async{name}`")
    yield fenced(class_stub(one, name))
    yield prose(inspect.getdoc(one) or "", links)
    if "__init__" in members(one):
        yield prose(own_doc(one, "__init__"), links)
    yield aside(inspect.getdoc(other) or "" if other else "", awaited=True)
    bases = [base for base in one.__mro__[1:] if f"{base.__name__}" in links]
    for each in documented(one):
        doc, where = own_doc(one, each), f"{name}.{each}"
        above = next((base for base in bases if own_doc(base, each) == doc), None)
        yield heading(3, where, each)
        if above is not None:
            as_there = f"{above.__name__}.{each}"
            yield f"As [`{as_there}`]({links[as_there]})."
            continue
        yield prose(doc, links)
        twin_name = {"close": "aclose"}.get(each, each)
        there = inspect.getattr_static(other, twin_name, None) if other else None
        member = inspect.getattr_static(one, each)
        plain = isinstance(member, FunctionType) and there is not None and not is_awaited(there)
        awaits = isinstance(member, property) and is_awaited(there)
        said = aside(own_doc(other, twin_name) if other else "", awaited=not plain)
        yield said if not awaits else "In asyncio: it is awaited."


def heading(level: int, place: str, words: str, beside: str = "") -> str:
    """Return a heading with an anchor that names the class, too."""
    more = f", in asyncio {beside}" if beside else ""
    return f'<a id="{place.lower()}"></a>\n\n{"#" * level} {words}{more}'


def own_doc(one: type, name: str) -> str:
    """Return what a class says of a member; nothing where Python says it."""
    member = inspect.getattr_static(one, name, None)
    member = member.fget if isinstance(member, property) else member
    member = bare_method(member)
    return inspect.cleandoc(member.__doc__ or "") if isinstance(member, FunctionType) else ""


def aside(doc: str, *, awaited: bool) -> str:
    """Return what is so in asyncio alone."""
    said = of_asyncio(doc) or ("" if awaited else "It is not awaited.")
    return f"In asyncio: {said}" if said else ""


def value_parts(name: str, one: object, other: object, links: dict[str, str]) -> Iterator[str]:
    """Yield the parts of what is no class of ours: a function, an error, a type."""
    beside = getattr(other, "__name__", "")
    yield heading(2, name, name, f"`{beside}`" if beside else "")
    if isinstance(one, FunctionType):
        yield fenced(stub(one))
    if isinstance(one, FunctionType | type):
        yield prose(inspect.getdoc(one) or "", links)


def unlisted() -> list[str]:
    """Return the public names that no page has; errors have a page by hand."""
    listed = {name for _, what in CONTENTS.values() if isinstance(what, tuple) for name in what}
    ours = {name: getattr(fencelock, name) for name in fencelock.__all__}
    every = [name for name, one in ours.items() if is_class(one) or not isinstance(one, type)]
    return sorted({*every} - listed - {twin(name, every) for name in every})


def main(*, check: bool) -> int:
    """Write or only name the pages that differ; return 0 if all is as it should be."""
    missing = unlisted()
    if missing:
        print(f"CONTENTS of tools/generate_reference.py has no {', '.join(missing)}: name its page")
        return 1
    links = anchors()
    differs = False
    for name, text in formatted({name: page(name, links) for name in CONTENTS}).items():
        path = PAGES / f"{name}.md"
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        differs = True
        if check:
            print(f"{path.relative_to(ROOT)} is not what tools/generate_reference.py writes")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return int(differs and check)


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
