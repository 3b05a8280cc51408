"""A class that is imported when it is first used: by a call, or as a type; by several threads."""

import sys
import threading
import typing

import pytest

from fencelock._runtime.later import Later


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return the name of a module that nothing has imported."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "made_for_later.py").write_text(
        "import sys\nsys.beginning()\nclass Thing(list):\n    pass\n"
    )
    monkeypatch.setattr(sys, "beginning", lambda: None, raising=False)
    yield "made_for_later"
    sys.modules.pop("made_for_later", None)


def test_it_is_imported_when_it_is_called(module):
    thing = Later(module, "Thing")
    assert module not in sys.modules

    assert type(thing([1])).__name__ == "Thing"
    assert thing([1]) == [1]


def test_it_is_a_type_in_annotations(module):
    def function():
        """Do nothing."""

    function.__annotations__ = {"one": "Thing", "some": "list[Thing]", "or_none": "Thing | None"}

    hints = typing.get_type_hints(function, {"Thing": Later(module, "Thing")})

    thing = sys.modules[module].Thing
    assert hints == {"one": thing, "some": list[thing], "or_none": thing | None}


def test_a_thread_waits_while_another_one_imports_it(module, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "beginning", lambda: (begun.set(), go_on.wait()), raising=False)
    made = []
    first, second = (
        threading.Thread(target=lambda: made.append(Later(module, "Thing")([1]))) for _ in range(2)
    )

    first.start()
    begun.wait()
    second.start()
    while second.is_alive() and not importing(second):
        pass
    go_on.set()
    first.join()
    second.join()

    assert made == [[1], [1]]


def importing(thread):
    """Return True while a thread is inside the import system."""
    frame = sys._current_frames().get(thread.ident)
    return frame is not None and "importlib" in frame.f_code.co_filename
