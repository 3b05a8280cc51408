"""Handles of another client, face or kind are refused where a lock or a name is expected."""

import pytest

from fencelock import AsyncClient, Client
from tests.factories import FACTORIES, make

URL = "redis://127.0.0.1:1/0"
QUORUM = [f"redis://127.0.0.1:{port}/0" for port in (1, 2, 3)]
FACES = pytest.mark.parametrize("face", [Client, AsyncClient], ids=["threads", "asyncio"])
OTHERS = {
    "another client of the same server": lambda face: face(URL).lock("a"),
    "another client's rlock": lambda face: face(URL).rlock("a"),
    "a quorum's": lambda face: face(QUORUM).lock("a"),
    "the other face's": lambda face: (AsyncClient if face is Client else Client)(URL).lock("a"),
    "a semaphore": lambda face: face(URL).semaphore("a", 1),
    "a side": lambda face: face(URL).rwlock("a").write,
    "a multi": lambda face: face(URL).multi(["a", "b"]),
    "an election": lambda face: face(URL).election("a"),
    "a class": lambda face: face,
    "bytes": lambda _: b"a",
}


@FACES
@pytest.mark.parametrize("kind", [*OTHERS])
def test_a_multi_wants_handles_of_its_own_client(face, kind):
    other = OTHERS[kind](face)
    with pytest.raises((TypeError, ValueError), match=r"client|name|handle"):
        face(URL).multi(["b", other])


@FACES
@pytest.mark.parametrize("factory", sorted({*FACTORIES} - {"multi"}))
def test_a_name_is_no_handle(face, factory):
    """Of the same client neither."""
    client = face(URL)
    with pytest.raises(TypeError, match=r"name|text"):
        make(client, factory, client.lock("a"))
