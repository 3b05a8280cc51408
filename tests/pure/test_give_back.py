"""Several locks that are given back one by one: one that the server refuses stops no other."""

import asyncio
from types import SimpleNamespace

import pytest

from fencelock import ServerDenied
from fencelock._core import multi
from fencelock._core.keys import LockKeys
from fencelock._core.want import Form, Terms, Want

TERMS = Terms(ttl=30.0, renew=True)
PORT = SimpleNamespace(now=lambda: 0.0, apart=None)


def want(name):
    return Want(Form(keys=LockKeys("p:", name), terms=TERMS, home=b"h", ttl=30.0), b"holder")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_lock_whose_release_is_refused_is_not_taken_for_released(monkeypatch, place):
    wants, asked, given = [want(name) for name in "abc"], [], multi._Given()
    refusal = ServerDenied("no right", code="NOPERM")

    async def one(_port, request, _until):
        asked.append(request[1][0])
        return refusal if asked[-1] == wants[place].keys.lock else 1

    monkeypatch.setattr(multi, "_by_one_script", lambda *_: False)
    monkeypatch.setattr(multi, "_one", one)
    with pytest.raises(ServerDenied, match="no right"):
        asyncio.run(multi._give_back(PORT, wants, given, 5.0))
    assert asked == [each.keys.lock for each in wants]
    assert given.refused == {wants[place]: refusal}
    assert list(given.answers.values()) == [1, 1]
    assert given.left(wants) == []
