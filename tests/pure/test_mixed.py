"""Handles of another client, face or kind are refused where a lock or a name is expected."""

import pytest

from fencelock import AsyncClient, Client

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
# What takes a name takes no handle, of the same client neither.
NAMED = {
    "lock": lambda client, it: client.lock(it),
    "rlock": lambda client, it: client.rlock(it),
    "semaphore": lambda client, it: client.semaphore(it, 1),
    "rwlock": lambda client, it: client.rwlock(it),
    "election": lambda client, it: client.election(it),
    "once": lambda client, it: client.once(it, within=60),
    "locked": lambda client, it: client.locked(it),
    "event": lambda client, it: client.event(it),
    "latch": lambda client, it: client.latch(it, 1),
    "barrier": lambda client, it: client.barrier(it, 2),
}


@FACES
@pytest.mark.parametrize("kind", [*OTHERS])
def test_a_multi_wants_handles_of_its_own_client(face, kind):
    other = OTHERS[kind](face)
    with pytest.raises((TypeError, ValueError), match=r"client|name|handle"):
        face(URL).multi(["b", other])


@FACES
@pytest.mark.parametrize("kind", NAMED)
def test_a_name_is_no_handle(face, kind):
    client = face(URL)
    with pytest.raises(TypeError, match=r"name|text"):
        NAMED[kind](client, client.lock("a"))
