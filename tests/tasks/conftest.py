"""Each test once for asyncio's own loop, and once for uvloop's; see world.py."""

from __future__ import annotations

import pytest

from tests.coroutines import pytest_pyfunc_call  # noqa: F401 - pytest finds the hook here
from tests.patience import _patient, patient  # noqa: F401 - pytest finds the fixtures here
from tests.servers import Server
from tests.tasks.world import LOOPS, World
from tests.waiting import until


@pytest.fixture(scope="session")
def server():
    """Lend one server for the whole run: tasks do not care which kind."""
    with Server() as running:
        yield running


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "world" in metafunc.fixturenames:
        metafunc.parametrize("world", LOOPS, indirect=True)


@pytest.fixture
def world(request, server):
    """Lend a kind of loop; at the end closed clients have no connection."""
    lent = World(request.param, server)
    lent.strict = request.node.get_closest_marker("strict") is not None
    yield lent
    lent.server = server
    until(lambda: not lent.connections(), "closed clients have no connection")
