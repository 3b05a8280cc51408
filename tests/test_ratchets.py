"""Figures of the package that only fall: its size, the length of its usual path, known debts.

``tests/ratchets.txt`` has each figure, one a line. A commit that makes one rise takes as much away
in the same place, or raises it on purpose and says why in its message:

    python -m tests.test_ratchets --lower          write the figures that have fallen
    python -m tests.test_ratchets --lower --raise  write those that have risen, too

A line that a merge has changed on both sides is written anew by the same command.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.calls import in_asyncio, in_threads
from tests.servers import Server
from tests.test_tidy import Definition, is_code

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "fencelock"
FILE = ROOT / "tests" / "ratchets.txt"
COMMAND = "python -m tests.test_ratchets --lower"
HEAD_LINES = 5  # a generated file says so in one of these

# Parts of _core with a room of their own; what lies elsewhere in it is the engine.
PARTS = ("deadlock", "look", "objects", "quorum")
CALLS = "functions entered by"
# The classes that describe one thing between them. They become fewer; no new name is added here.
FAMILIES = {
    "lease": (
        *("Grant", "Loss", "Hold", "BaseLease", "Lease", "AsyncLease", "BlockingHold"),
        *("AsyncHold", "Majority", "Spare"),
        *("BaseMultiLease", "MultiLease", "AsyncMultiLease"),
    ),
    "request": (
        *("_CommonOptions", "LeaseOptions", "Terms"),
        *("ShareTerms", "Asked", "Seat", "Attempt", "Ballot"),
        *("QuorumAttempt", "StateWaiter"),
    ),
}


# --- how each figure is measured ------------------------------------------------------------------


@functools.cache
def measured() -> Counter[str]:
    """Return every figure of the package as it is now."""
    return lines_of_code() + debts() + functions_entered()


def lines_of_code() -> Counter[str]:
    figures: Counter[str] = Counter()
    for path, text in written("*.py"):
        lines = code_lines(text)
        figures += {f"lines of Python in {room(path)}": lines, "lines of Python in all": lines}
    for _, text in written("*.lua"):
        figures["lines of Lua"] += sum(map(is_lua, text.splitlines()))
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
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | Definition) and ast.get_docstring(node, clean=False):
            docs.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(is_code(line) for number, line in lines if number not in docs)


def is_lua(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("--")


def room(path: Path) -> str:
    """Return the package of a file; of _core, its part."""
    if len(path.parts) == 1:
        return "the modules at the top"
    part = path.parts[1] if path.parts[1] in PARTS else "the engine"
    return f"_core, {part}" if path.parts[0] == "_core" else path.parts[0]


def debts() -> Counter[str]:
    figures: Counter[str] = Counter()
    names = {name: family for family, names in FAMILIES.items() for name in names}
    for path, text in written("*.py"):
        if path.parts[0] == "_core":
            found = re.findall(r"^\s*except\b.*\bBaseException\b", text, re.MULTILINE)
            figures["handlers of BaseException in _core"] += len(found)
        aliases = re.findall(r"^\w+: TypeAlias = Any\b", text, re.MULTILINE)
        figures["aliases of Any, which switch types off"] += len(aliases)
        too_many = "functions with too many positional arguments (noqa: PLR0917)"
        figures[too_many] += len(re.findall(r"# noqa:.*\bPLR0917\b", text))
        for name in re.findall(r"^class (\w+)", text, re.MULTILINE):
            if name in names:
                figures[f"class of the {names[name]} family: {name}"] += 1
    return figures


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


def risen() -> list[str]:
    listed = known()
    return [
        f"{name}: {figure}, at most {listed.get(name, 0)}"
        for name, figure in measured().items()
        if figure > listed.get(name, 0)
    ]


def fallen() -> list[str]:
    """Return what may be lowered. Newer Pythons enter fewer functions, and do not count here."""
    return [
        f"{name}: {measured()[name]}, the list says {figure}"
        for name, figure in known().items()
        if figure > measured()[name]
        and not (name.startswith(CALLS) and sys.version_info >= (3, 12))
    ]


def write(*, raises: bool) -> None:
    """Write the list anew. A figure that has risen stays as it is listed, unless ``raises``."""
    listed, higher = known(), risen()
    rows = {
        name: figure if raises else min(figure, listed.get(name, 0))
        for name, figure in measured().items()
    }
    if sys.version_info >= (3, 12):
        rows |= {name: figure for name, figure in listed.items() if name.startswith(CALLS)}
    FILE.write_text("".join(f"{rows[name]} {name}\n" for name in sorted(rows) if rows[name]))
    if higher:
        print("risen:", *higher, sep="\n  ")  # noqa: T201  # run by hand, to be read
        if not raises:
            sys.exit("These were not written. Take away elsewhere, or add --raise and say why.")


# --- tests ----------------------------------------------------------------------------------------


def test_no_figure_rises():
    if found := risen():
        advice = f"take as much away elsewhere, or run {COMMAND} --raise and say why in the commit"
        pytest.fail("\n".join((*found, advice)), pytrace=False)


def test_no_figure_in_the_list_is_higher_than_needed():
    if found := fallen():
        pytest.fail("\n".join((*found, f"run {COMMAND}")), pytrace=False)


def test_comments_docstrings_and_blank_lines_are_no_code():
    head = '"""One.\n\nTwo.\n"""\n\n# three\nx = 1  # four\n'
    assert code_lines(head + '\ndef f():\n    "D."\n    return """a\nb"""\n') == 4


def test_a_generated_file_says_so_at_its_head():
    assert is_generated('"""Locks."""\n# Generated from aio/lock.py by tools/faces.py.\n')
    assert not is_generated('"""By hand.\n\nOther files are generated from those of aio/."""\n')
    assert not is_generated('"""Locks."""\n' + "\n" * HEAD_LINES + "# Generated\n")


def test_a_figure_that_a_merge_left_twice_is_the_lower_one(monkeypatch, tmp_path):
    file = tmp_path / "ratchets.txt"
    file.write_text("<<<<<<< ours\n7 of a kind\n=======\n5 of a kind\n>>>>>>> theirs\n")
    monkeypatch.setattr(sys.modules[__name__], "FILE", file)
    assert known() == {"of a kind": 5}


if __name__ == "__main__":
    if "--lower" not in sys.argv:
        sys.exit(__doc__)
    write(raises="--raise" in sys.argv)
