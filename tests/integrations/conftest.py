"""A server that the tests of all frameworks share, and one for tests that stop it."""

import pytest

from tests.servers import Server


@pytest.fixture(scope="session")
def shared_server():
    with Server() as server:
        yield server


@pytest.fixture
def server(shared_server):
    """Lend an empty server that no test may stop."""
    shared_server.flushall()
    return shared_server


@pytest.fixture
def own_server():
    """Lend a server that this test may stop and kill."""
    with Server() as server:
        yield server
