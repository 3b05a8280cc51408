"""A world of its own for each test, and no server left behind it."""

from __future__ import annotations

import pytest

from tests.embedded.world import World
from tests.servers import binaries, directory_of_servers


@pytest.fixture
def world(monkeypatch):
    """Lend a cold directory that ensure() will use, and any server that this machine has."""
    with directory_of_servers() as directory:
        lent = World(directory)
        monkeypatch.setenv("FENCELOCK_EMBEDDED", "1")
        monkeypatch.setenv("FENCELOCK_DIR", str(lent.here))
        monkeypatch.setenv("PATH", "")  # so that use() is undone at the end
        lent.use(binaries()[-1])
        yield lent


@pytest.fixture(params=binaries(), ids=str)
def binary(request):
    """Each server program on this machine."""
    return request.param
