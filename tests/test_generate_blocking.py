"""The face for threads is generated: a file out of date is noticed, and each rule holds."""

import shutil

import pytest

from tools import generate_blocking

METHODS = {"acquire", "shut"}
HEAD = """
from __future__ import annotations

from fencelock._core.engine import holder_of
from fencelock.aio.caller import awaited, by_caller, caller

"""


@pytest.fixture
def faces(tmp_path, monkeypatch):
    """Return copies of both faces, for the generator to work on."""
    for face in ("aio", "blocking"):
        shutil.copytree(generate_blocking.FACES / face, tmp_path / face)
    monkeypatch.setattr(generate_blocking, "FACES", tmp_path)
    return tmp_path


def made(source):
    return generate_blocking.blocking("x.py", HEAD + source, METHODS)


@pytest.mark.nightly  # ``dev.py lint`` asks the same
def test_the_face_for_threads_is_what_is_generated(faces, capsys):
    assert generate_blocking.main(check=True) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.nightly
def test_a_file_that_differs_is_named_and_written_anew(faces, capsys):
    changed, added = faces / "blocking" / "lock.py", faces / "blocking" / "left.py"
    before = changed.read_text()
    changed.write_text(before.replace("self", "me"))
    added.write_text("")

    assert generate_blocking.main(check=True) == 1
    told = capsys.readouterr().out
    assert "blocking/lock.py" in told
    assert "blocking/left.py" in told

    assert generate_blocking.main(check=False) == 0
    assert changed.read_text() == before
    assert not added.exists()
    assert generate_blocking.main(check=True) == 0


def test_every_file_says_that_it_is_generated():
    files = sorted((generate_blocking.FACES / "blocking").glob("*.py"))
    told = {path.name for path in files if path.read_text().startswith("# Generated from aio/")}

    assert told == {path.name for path in files} - generate_blocking.BY_HAND


@pytest.mark.parametrize(
    ("source", "threads"),
    [
        ("await self.lock.acquire()  # as told", "self.lock.acquire()  # as told"),
        ("await holder_of(port, keys)", "run_blocking(holder_of(port, keys))"),
        ("await self._holds.busy(self._port())", "run_blocking(self._holds.busy(self._port))"),
        ("await flow", "run_blocking(flow)"),
        ("await awaited(self._action())", "awaited(self._action())"),
        ("await port.shut()", "port.shut()"),
        ("holds.of(caller())", "holds.of(process.here.unit)"),
    ],
)
def test_an_await_of_the_face_is_a_call_and_an_await_of_a_flow_is_run(source, threads):
    method = f"async def method(self):\n    {source}\n"

    assert f"def method(self):\n    {threads}\n" in made(method)
    assert "async " not in made(method)


def test_a_method_for_tasks_is_one_for_threads():
    source = """
class AsyncThing:
    \"\"\"A thing of this task.

    Any thread or task may use it.
    \"\"\"

    @by_caller
    async def use(self, call: Callable[[int], Coroutine[Any, Any, int]]) -> AsyncLease:
        \"\"\"Use it, by ``AsyncClient.thing``, until a cancellation.\"\"\"
"""
    assert made(source).endswith(
        """
class Thing:
    \"\"\"A thing of this thread.

    Any thread or task may use it.
    \"\"\"

    def use(self, call: Callable[[int], int]) -> Lease:
        \"\"\"Use it, by ``Client.thing``, until Ctrl-C.\"\"\"
"""
    )
