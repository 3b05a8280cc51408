"""A pytest plugin: note which test runs which line of the package, and which script, and how long.

Lines are named by their text and the function that they are in, so that a recording outlives
changes elsewhere in the file. What a child process runs is not seen.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import coverage
import pytest

from fencelock import scripts
from tests.daily import nightly

PACKAGE = Path(scripts.__file__).resolve().parents[1]
RECORDING = "FENCELOCK_RECORDING"  # the folder that recordings go to; each process writes one

used: defaultdict[str, set[str]] = defaultdict(set)  # script → tests
seconds: dict[str, float] = {}
night: set[str] = set()  # the tests that are not daily
running = ""
_digest = vars(scripts.Script)["digest"]


def digest(script: scripts.Script) -> bytes:
    """Note the script whose digest is read: a call of it is being made."""
    reader = sys._getframe(1).f_code.co_filename
    if running and not reader.endswith("simulator/server.py"):  # it looks the name of a digest up
        used[script.name].add(running)
    found: bytes = _digest.__get__(script)
    return found


scripts.Script.digest = property(digest, _digest.__set__)
recorder = coverage.Coverage(data_file=None, source=[str(PACKAGE)], config_file=False)
recorder.set_option("run:disable_warnings", ["no-data-collected"])  # of the process that only leads


def pytest_sessionstart() -> None:
    recorder.start()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    night.update(item.nodeid for item in items if nightly(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    global running  # noqa: PLW0603 - one test runs at a time
    running = item.nodeid
    recorder.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        recorder.switch_context("")
        running = ""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    recorder.stop()
    folder = Path(os.environ[RECORDING])
    folder.mkdir(parents=True, exist_ok=True)
    seen = {"lines": lines(), "scripts": {name: sorted(tests) for name, tests in used.items()}}
    recording = json.dumps(seen | {"seconds": seconds, "night": sorted(night)})
    (folder / f"{os.getpid()}.json").write_text(recording)


def lines() -> dict[str, list[str]]:
    """Return the tests that ran each line."""
    data = recorder.get_data()
    found: defaultdict[str, set[str]] = defaultdict(set)
    for file in data.measured_files():
        inside, names = Path(file).relative_to(PACKAGE).as_posix(), named(file)
        for line, contexts in data.contexts_by_lineno(file).items():
            if line in names:
                found[f"{inside}:{names[line]}"].update(filter(None, contexts))
    return {name: sorted(tests) for name, tests in found.items()}


@functools.cache
def named(file: str) -> dict[int, str]:
    """Return for each line of a file its function and its text."""
    return names_of(Path(file).read_text())


def names_of(text: str) -> dict[int, str]:
    functions: dict[int, str] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), node.name)
    return {
        number: f"{functions.get(number, '')}:{line.strip()}"
        for number, line in enumerate(text.split("\n"), 1)
    }
