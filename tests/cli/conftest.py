"""A server for all tests of this folder, an empty one for each; and a shell."""

from __future__ import annotations

import os

import pytest

from tests.cli.shell import Shell
from tests.servers import Server, binaries


@pytest.fixture(scope="session")
def shared_server():
    with Server(binaries()[0]) as server:
        yield server


@pytest.fixture
def server(shared_server):
    """Lend an empty server that no test may stop."""
    shared_server.flushall()
    return shared_server


@pytest.fixture
def own_server():
    """Lend a server that this test may stop and kill."""
    with Server(binaries()[0]) as server:
        yield server


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Lend a place for compiled modules: hundreds of processes import the same ones."""
    return str(tmp_path_factory.mktemp("compiled"))


def _shell(folder, url, compiled):
    ours = ("FENCELOCK_", "PYTHONDONTWRITEBYTECODE")
    env = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    given = {"FENCELOCK_URL": url, "FENCELOCK_EMBEDDED": "0", "PYTHONPYCACHEPREFIX": compiled}
    return Shell(folder, env | given)


@pytest.fixture
def shell(tmp_path, server, compiled):
    """Lend a shell whose commands use the shared server."""
    lent = _shell(tmp_path, server.url, compiled)
    yield lent
    lent.close()


@pytest.fixture
def own_shell(tmp_path, own_server, compiled):
    """Lend a shell whose commands use the test's own server."""
    lent = _shell(tmp_path, own_server.url, compiled)
    yield lent
    lent.close()
