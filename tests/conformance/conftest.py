"""Each test once, for both faces and every kind of server; see world.py."""

from __future__ import annotations

import inspect

import pytest

from tests.conformance.world import FACES, World, shared_server, started
from tests.servers import ServerBinary, binaries


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of a ``world`` for each face and server; under uvloop on the first kind only."""
    if "world" in metafunc.fixturenames:
        pairs = [
            pytest.param(face, binary, marks=pytest.mark.slow if face == "uvloop" else ())
            for binary in binaries()
            for face in FACES
            if face != "uvloop" or binary is binaries()[0]
        ]
        metafunc.parametrize(("face", "binary"), pairs, ids=str)


@pytest.fixture
def world(face: str, binary: ServerBinary) -> World:
    """Lend the test a face, the shared server of a kind, and a key prefix of its own."""
    return World(face, shared_server(binary))


@pytest.fixture(scope="session", autouse=True)
def _servers():
    """End the shared servers with the session."""
    yield
    for server in started:
        server.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in its world."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    given = {name: pyfuncitem.funcargs[name] for name in wanted}
    given["world"].run(pyfuncitem.obj(**given))
    return True
