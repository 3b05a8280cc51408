"""``import fencelock``: each face is there when it is asked for, and not before."""

import inspect
import pickle
import subprocess
import sys

import pytest

import fencelock
from tests.pure.made import made_by

FACES = {
    "fencelock.aio",
    "fencelock.blocking",
    "fencelock.embedded",
    "asyncio",
    "threading",
    "redis",
    "hiredis",
}
LOADED = """
import sys
import fencelock
exec(sys.argv[1])
print(*sorted({*sys.argv[2:]} & {*sys.modules}))
"""


def loaded(line):
    """Return which modules of the faces a fresh process has loaded after this line."""
    words = [sys.executable, "-c", LOADED, line, *FACES]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def test_neither_face_is_loaded_before_it_is_used():
    assert loaded("dir(fencelock)") == set()


def test_threads_do_not_load_asyncio():
    found = loaded("fencelock.Client")
    assert "fencelock.blocking" in found
    assert not found & {"fencelock.aio", "asyncio", "redis"}


def test_a_face_is_looked_up_once():
    assert fencelock.AsyncClient is vars(fencelock)["AsyncClient"]


def test_all_names_are_told_and_there():
    assert set(fencelock.__all__) <= set(dir(fencelock))
    for name in fencelock.__all__:
        assert pickle.loads(pickle.dumps(getattr(fencelock, name))) is getattr(fencelock, name)


def test_the_embedded_server_is_there_without_an_import_of_its_own():
    assert "fencelock.embedded" in loaded("fencelock.embedded.url")


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'fencelock' has no attribute 'Mutex'"):
        _ = fencelock.Mutex


def test_an_option_is_a_value():
    poll = fencelock.Poll(interval=2, max_tries=3)
    assert pickle.loads(pickle.dumps(poll)) == poll
    assert repr(poll) == "Poll(interval=2.0, max_tries=3)"
    assert poll != fencelock.Poll(interval=2)
    assert fencelock.Queue() == fencelock.Queue()
    for change in (lambda: setattr(poll, "interval", 1), lambda: delattr(poll, "interval")):
        with pytest.raises(AttributeError, match="interval"):
            change()


@pytest.mark.parametrize("face", [fencelock.Client, fencelock.AsyncClient])
def test_a_client_whose_options_were_refused_has_a_repr_for_a_debugger(face):
    half = face.__new__(face)
    with pytest.raises(ValueError, match="server_timeout"):
        half.__init__("redis://localhost:1", server_timeout=-1)
    assert repr(half) == f"<fencelock.{face.__name__} of nothing>"


@pytest.mark.parametrize("face", [fencelock.Client, fencelock.AsyncClient])
def test_everything_tells_what_it_is_and_its_name(face):
    client, *handles = made_by(face("redis://localhost:1"))
    assert repr(client) == f"<fencelock.{face.__name__} of redis://localhost:1/0>"
    for handle in handles:
        assert f"fencelock.{type(handle).__name__} " in repr(handle)
        names = handle.names if hasattr(handle, "names") else [handle.name]
        assert all(repr(name) in repr(handle) for name in names)


def test_a_coroutine_that_was_never_awaited_is_named_by_its_class():
    """The warning says no more than that."""
    kinds = [
        kind for name in fencelock.__all__ if inspect.isclass(kind := getattr(fencelock, name))
    ]
    methods = [
        (name, method.__qualname__.split("."))
        for kind in kinds
        for name, method in inspect.getmembers(kind, inspect.iscoroutinefunction)
        if name[0] != "_"
    ]
    assert len(methods) > 50
    for name, (owner, *said) in methods:
        assert (owner in fencelock.__all__, said) == (True, [name])
