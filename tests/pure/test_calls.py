"""A call with what belongs elsewhere is refused before anything is sent, in our words."""

import inspect

import pytest

import fencelock
from tests.pure.made import made_by

FACES = pytest.mark.parametrize("face", [fencelock.Client, fencelock.AsyncClient])


def call(method, /, *args, **kwargs):
    """Call a method of either face, up to the first thing that it would wait for."""
    result = method(*args, **kwargs)
    if inspect.iscoroutine(result):
        result.send(None)


def that_acquire(client):
    """Yield each method of a client's objects that takes ``blocking``."""
    for made in made_by(client):
        for name in ("acquire", "campaign"):
            if hasattr(made, name):
                yield getattr(made, name)


@FACES
def test_seconds_in_the_place_of_blocking_are_refused_by_every_object(face):
    methods = list(that_acquire(face("redis://localhost:1")))
    assert len(methods) == 9
    for method in methods:
        for seconds in (1, 0, 5, 0.5):
            with pytest.raises(TypeError, match=f"timeout={seconds}"):
                call(method, seconds)
