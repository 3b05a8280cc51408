"""The page of guarantees names tests; each of them exists, and each promise has one."""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "guarantees.md"
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")])
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@functools.cache
def functions(file):
    """Return the names of a file's tests; none for a file that is not there."""
    path = ROOT / file
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    made = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)} | {
        name.id for name in made if isinstance(name, ast.Name) and name.id.startswith("test_")
    }


def missing(text):
    """Return the tests that a page names and that are not there."""
    return [f"{file}::{name}" for file, name in NAMED.findall(text) if name not in functions(file)]


def unshown(text):
    """Return the promises of the first table that name no test."""
    table = text.partition("| shown by |\n| --- |")[2].partition("\n\n")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ")]
    assert rows
    return [row for row in rows if not NAMED.search(row)]


def test_every_test_that_a_page_names_exists():
    gone = {page.relative_to(ROOT).as_posix(): missing(page.read_text()) for page in PAGES}
    assert {page: tests for page, tests in gone.items() if tests} == {}


def test_every_promise_names_its_test():
    assert unshown(PAGE.read_text()) == []
    assert len(NAMED.findall(PAGE.read_text())) > 20


def test_the_checks_see_what_is_wrong():
    here = "tests/test_promises.py"
    assert missing(f"`{here}::test_nothing` `tests/nowhere.py::test_x`") == [
        f"{here}::test_nothing",
        "tests/nowhere.py::test_x",
    ]
    assert missing(f"`{here}::test_every_promise_names_its_test`") == []
    assert unshown("| shown by |\n| --- |\n| a promise | | |\n\n") == ["| a promise | | |"]
