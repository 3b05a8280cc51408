"""A server for all tests of this folder, an empty one for each; and a shell.

What a command does is the same over every way to a server. So each test runs over a Unix socket;
those marked ``smoke`` later also over TCP, which fencelock dials itself, and TLS, which redis-py
does.
"""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import sys

import pytest

from tests.cli.shell import Shell
from tests.patience import _patient, patient  # noqa: F401 - pytest finds the fixtures here
from tests.servers import Server, binaries, directory_of_servers
from tests.tls import Front

WAY, OTHERS = "unix", [pytest.param(way, marks=pytest.mark.slow) for way in ("tcp", "tls")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "url_of" in metafunc.fixturenames:
        smoke = metafunc.definition.get_closest_marker("smoke")
        metafunc.parametrize("url_of", [WAY, *(OTHERS if smoke else ())], indirect=True)


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


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Lend one folder for the certificate of all tests."""
    return tmp_path_factory.mktemp("tls")


@pytest.fixture
def url_of(request, folder):
    """Lend what tells a server's address, by each way there is."""
    with contextlib.ExitStack() as fronts:

        def told(server):
            if request.param == "tls":
                return fronts.enter_context(Front(server, folder)).url
            return server.url if request.param == "unix" else server.tcp_url

        yield told


@pytest.fixture
def shell(tmp_path, server, compiled, url_of):
    """Lend a shell whose commands use the shared server."""
    lent = _shell(tmp_path, url_of(server), compiled)
    yield lent
    lent.close()


@pytest.fixture
def own_shell(tmp_path, own_server, compiled, url_of):
    """Lend a shell whose commands use the test's own server."""
    lent = _shell(tmp_path, url_of(own_server), compiled)
    yield lent
    lent.close()


@pytest.fixture
def embedded():
    """Lend the environment of a user who has no server configured."""
    with directory_of_servers() as directory:
        yield {
            "FENCELOCK_URL": None,
            "FENCELOCK_EMBEDDED": "1",
            "FENCELOCK_DIR": str(directory / "d"),
        }


@pytest.fixture
def terminal(shell):
    """Lend a function that starts a command on a terminal of its own; returns it and its screen."""
    opened = []

    def start(*words):
        pid, master = pty.fork()
        if pid == 0:
            os.execvpe(
                sys.executable, [sys.executable, "-m", "fencelock", *map(str, words)], shell.env
            )
        opened.append((pid, master))
        return pid, master

    yield start
    for pid, master in opened:
        os.close(master)
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ChildProcessError, ProcessLookupError):
            pass
