"""Figures of the package that must not creep up: its size by room, its usual path, known debts.

``tests/ratchets.txt`` has each figure, one a line, as it was when a piece of work last landed. From
there a figure may grow by 3 %, so that most changes leave the file alone; the functions that an
uncontended pair enters may not grow at all, and a change that lowers them writes that down.

    python -m tests.test_ratchets        say what is above its bound; ``dev.py fast`` begins with it
    python -m tests.test_ratchets --set  set all figures anew, as a piece of work lands

A commit that sets a figure higher says why in its message. After a merge conflict in the file, set
it anew: the command needs neither side.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from benchmarks.calls import in_asyncio, in_threads
from tests.servers import Server
from tests.test_tidy import Definition, is_code

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "fencelock"
FILE = ROOT / "tests" / "ratchets.txt"
COMMAND = "python -m tests.test_ratchets --set"
HEAD_LINES = 5  # a generated file says so in one of these
GROWTH_PERCENT = 3

# Parts of _core with a room of their own; what lies elsewhere in it is the engine.
PARTS = ("deadlock", "look", "objects", "quorum")
CALLS = "functions entered by"
# What a client does at its server; what derives from these in _core is the same object once more.
CLIENT_AT_ITS_SERVER = frozenset({"Wire", "Engine"})


# --- how each figure is measured ------------------------------------------------------------------


@functools.cache
def measured() -> Counter[str]:
    """Return every figure as it is now."""
    return lines_of_code() + debts() + functions_entered()


def lines_of_code() -> Counter[str]:
    figures: Counter[str] = Counter()
    for path, text in written("*.py"):
        lines = code_lines(text)
        figures += {f"lines of Python in {room(path)}": lines, "lines of Python in all": lines}
    for _, text in written("*.lua"):
        figures["lines of Lua"] += sum(map(is_lua, text.splitlines()))
    for folder in ("tests", "verification"):
        texts = [path.read_text() for path in (ROOT / folder).rglob("*.py")]
        figures["lines of tests and verification, with comments"] += "".join(texts).count("\n")
    return figures


def written(pattern: str) -> Iterator[tuple[Path, str]]:
    """Yield the package's files that people write, with their texts."""
    for path in sorted(PACKAGE.rglob(pattern)):
        text = path.read_text()
        if not is_generated(text):
            yield path.relative_to(PACKAGE), text


def is_generated(text: str) -> bool:
    return any(line.startswith("# Generated") for line in text.splitlines()[:HEAD_LINES])


def code_lines(text: str) -> int:
    """Count the lines of a module that are no docstring, no comment and not blank."""
    docs: set[int] = set()
    for node in nodes_of(text):
        if isinstance(node, ast.Module | Definition) and ast.get_docstring(node, clean=False):
            docs.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(is_code(line) for number, line in lines if number not in docs)


@functools.cache
def nodes_of(text: str) -> list[ast.AST]:
    """Return all nodes of a module, which several figures are counted from."""
    return list(ast.walk(ast.parse(text)))


def is_lua(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("--")


def room(path: Path) -> str:
    """Return the package of a file; of _core, its part."""
    if len(path.parts) == 1:
        return "the modules at the top"
    part = path.parts[1] if path.parts[1] in PARTS else "the engine"
    return f"_core, {part}" if path.parts[0] == "_core" else path.parts[0]


def debts() -> Counter[str]:
    """Count all of a kind, so that a name, or another spelling, hides none."""
    figures: Counter[str] = Counter()
    nodes = {path: nodes_of(text) for path, text in written("*.py")}
    core = [node for path in nodes if path.parts[0] == "_core" for node in nodes[path]]
    aio = [node for path in nodes if path.parts[0] == "aio" for node in nodes[path]]
    figures["classes in _core"] = len(each_of(ast.ClassDef, core))
    names = Counter(annotated_names(core))
    figures["annotations with Any in _core"] = names["Any"]
    figures["annotations with object in _core"] = names["object"]
    figures["functions in _core that take a client at its server"] = takers(core)
    figures["calls of cast"] = sum(map(is_cast, chain(*nodes.values())))
    figures["handlers of BaseException in _core and aio"] = sum(map(catches_all, (*core, *aio)))
    spared = [re.findall(r"# noqa:.*\bPLR0917\b", text) for _, text in written("*.py")]
    figures["functions with too many positional arguments (noqa: PLR0917)"] = sum(map(len, spared))
    return figures


def each_of(kind, nodes: Iterable[ast.AST]) -> list:
    return [node for node in nodes if isinstance(node, kind)]


def annotated_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names in annotations, quoted ones too, and in aliases of types."""
    for node in nodes:
        found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.AnnAssign) and "TypeAlias" in names_in(node.annotation):
            found.append(node.value)
        for each in filter(None, found):
            yield from names_in(each)


def names_in(annotation: ast.AST) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name | ast.Attribute):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\w+", node.value)


def takers(core: list[ast.AST]) -> int:
    """Count the functions that have a parameter of the type of a client at its server."""
    kinds = set(CLIENT_AT_ITS_SERVER)
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for node in each_of(ast.ClassDef, core)
    }
    while more := {name for name, above in bases.items() if above & kinds} - kinds:
        kinds |= more
    return sum(
        any(kinds.intersection(names_in(each.annotation)) for each in parameters(function))
        for function in each_of((ast.FunctionDef, ast.AsyncFunctionDef), core)
    )


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    """Return the parameters of a function that have a type."""
    every = function.args
    found = (*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg)
    return [each for each in found if each is not None and each.annotation is not None]


def is_cast(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in {"cast", "typing.cast"}


def catches_all(node: ast.AST) -> bool:
    if not isinstance(node, ast.ExceptHandler):
        return False
    return node.type is None or "BaseException" in names_in(node.type)


def functions_entered() -> Counter[str]:
    """Count as ``python -m benchmarks.calls one``: an uncontended pair on one server."""
    with Server() as server:
        paths = {"threads": in_threads(server.url), "asyncio": asyncio.run(in_asyncio(server.url))}
    return Counter(
        {
            f"{CALLS} {operation} in {face}": len(path.calls)
            for face, pair in paths.items()
            for operation, path in zip(("acquire", "release"), pair, strict=True)
        }
    )


# --- the list -------------------------------------------------------------------------------------


def known() -> dict[str, int]:
    """Return the figures of the list; of a line that a merge left twice, the lower one."""
    figures: dict[str, int] = {}
    for figure, name in re.findall(r"^(\d+) (.+)$", FILE.read_text(), re.MULTILINE):
        figures[name] = min(int(figure), figures.get(name, int(figure)))
    return figures


def allowed(name: str) -> int:
    """Return what a figure may be at most."""
    figure = known().get(name, 0)
    return figure if name.startswith(CALLS) else figure * (100 + GROWTH_PERCENT) // 100


def risen() -> list[str]:
    return [
        f"{name}: {figure}, at most {allowed(name)}"
        for name, figure in measured().items()
        if figure > allowed(name)
    ]


def fallen() -> list[str]:
    """Return what calls were saved. Newer Pythons enter fewer functions, and do not count here."""
    return [
        f"{name}: {measured()[name]}, the list says {figure}"
        for name, figure in known().items()
        if name.startswith(CALLS) and figure > measured()[name] and sys.version_info < (3, 12)
    ]


def write() -> None:
    """Write the list anew, and say what is higher than it was."""
    listed, rows = known(), dict(measured())
    if sys.version_info >= (3, 12):
        rows |= {name: figure for name, figure in listed.items() if name.startswith(CALLS)}
    FILE.write_text("".join(f"{rows[name]} {name}\n" for name in sorted(rows) if rows[name]))
    higher = (name for name in sorted(rows) if rows[name] > listed.get(name, 0))
    for name in higher:
        print(f"higher: {name}: {listed.get(name, 0)} -> {rows[name]}")  # noqa: T201  # run by hand


# --- tests ----------------------------------------------------------------------------------------

ADVICE = f"take as much away elsewhere, or run {COMMAND} and say why in the commit"


def test_no_figure_is_above_its_bound():
    if found := risen():
        pytest.fail("\n".join((*found, ADVICE)), pytrace=False)


def test_calls_that_were_saved_are_written_down():
    if found := fallen():
        pytest.fail("\n".join((*found, f"run {COMMAND}")), pytrace=False)


def test_comments_docstrings_and_blank_lines_are_no_code():
    head = '"""One.\n\nTwo.\n"""\n\n# three\nx = 1  # four\n'
    assert code_lines(head + '\ndef f():\n    "D."\n    return """a\nb"""\n') == 4


def test_a_generated_file_says_so_at_its_head():
    assert is_generated('"""Locks."""\n# Generated from aio/lock.py by tools/faces.py.\n')
    assert not is_generated('"""By hand.\n\nOther files are generated from those of aio/."""\n')
    assert not is_generated('"""Locks."""\n' + "\n" * HEAD_LINES + "# Generated\n")


def test_a_type_that_is_switched_off_is_seen_however_it_is_spelled():
    text = "X: TypeAlias = dict[str, Any]\nclass A:\n x: 'Any | None'\n def f(*a: t.Any) -> Any: 0"
    assert [*annotated_names(nodes_of(text))].count("Any") == 4


def test_what_derives_from_the_engine_is_one_more_name_of_it():
    text = (
        "class Port(Wire): 0\nclass Own(Port): 0\ndef f(a, *, b: 'Own | None'): 0\ndef g(a: int): 0"
    )
    assert takers(nodes_of(text)) == 1


def test_a_few_may_grow_by_none_and_many_by_some(monkeypatch, tmp_path):
    file = tmp_path / "ratchets.txt"
    file.write_text(f"11 handlers\n1000 lines\n100 {CALLS} acquire\n")
    monkeypatch.setattr(sys.modules[__name__], "FILE", file)
    assert [allowed(name) for name in known()] == [11, 1030, 100]


def test_a_figure_that_a_merge_left_twice_is_the_lower_one(monkeypatch, tmp_path):
    file = tmp_path / "ratchets.txt"
    file.write_text("<<<<<<< ours\n7 of a kind\n=======\n5 of a kind\n>>>>>>> theirs\n")
    monkeypatch.setattr(sys.modules[__name__], "FILE", file)
    assert known() == {"of a kind": 5}


def main() -> int:
    """Write the list, or say what is above it."""
    if sys.argv[1:] == ["--set"]:
        write()
        return 0
    found = risen()
    for line in (*found, ADVICE) if found else ():
        print(line)  # noqa: T201  # run by hand, to be read
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
