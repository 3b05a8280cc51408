"""Each test once, for both faces and every kind of server; see world.py."""

from __future__ import annotations

import pytest

from tests.conformance.world import FACES, World, shared_server, started
from tests.coroutines import pytest_pyfunc_call  # noqa: F401 - pytest finds the hook here
from tests.patience import _patient, patient  # noqa: F401 - pytest finds the fixtures here
from tests.servers import ServerBinary, binaries
from tests.topologies import TOPOLOGIES, Topology, shared

# What another loop, or an old server together with asyncio, could change: how a client connects,
# waits, is notified and ends. What the scripts decide is the same.
MEANS = frozenset(
    {
        *("exclusive", "line", "renewal", "errors", "sources", "signals", "pushes"),
        *("closing_race", "shutdown", "fake_clients", "permissions"),
    }
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of a ``world`` for each face and server; under uvloop what is quick, on one.

    Under uvloop, and for asyncio on older servers, those of ``MEANS``.
    """
    if "world" not in metafunc.fixturenames:
        return
    slow = metafunc.definition.get_closest_marker("slow")
    newest, *others = binaries()
    by_each = metafunc.module.__name__.rpartition(".test_")[2] in MEANS
    pairs = [(face, newest) for face in (FACES if by_each and not slow else FACES[:2])]
    if not getattr(metafunc.function, "needs_no_server", False):
        pairs += [(face, old) for old in others for face in (FACES[:2] if by_each else FACES[:1])]
        if not is_one_servers(metafunc):
            here = [each for each in TOPOLOGIES if each.has(metafunc.module.__name__)]
            pairs += [(face, topology) for topology in here for face in FACES[:2]]
    if metafunc.definition.get_closest_marker("sentinel"):
        pairs = [
            (face, each) for each in TOPOLOGIES if each.name == "sentinel" for face in FACES[:2]
        ]
    marked = [
        pytest.param(*pair, marks=pytest.mark.slow if pair[0] == "uvloop" else ()) for pair in pairs
    ]
    metafunc.parametrize(("face", "binary"), marked, ids=str)


def is_one_servers(metafunc: pytest.Metafunc) -> bool:
    """Return True if a test is about one server: it says so, or starts one for itself alone."""
    says_so = metafunc.definition.get_closest_marker("one_server")
    return says_so is not None or "alone" in metafunc.function.__code__.co_names


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of the quorum what it does not support: whole tests, or some of their params."""
    left_out = [item for item in items if _on_quorum(item) and item.get_closest_marker("no_quorum")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _on_quorum(item: pytest.Item) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {})
    binary = params.get("binary")
    return isinstance(binary, Topology) and binary.quorum


@pytest.fixture
def world(face: str, binary: ServerBinary | Topology, request: pytest.FixtureRequest) -> World:
    """Lend the test a face, the shared server of a kind, and a key prefix of its own."""
    made = _world(face, binary)
    made.strict = request.node.get_closest_marker("strict") is not None
    return made


def _world(face: str, binary: ServerBinary | Topology) -> World:
    if isinstance(binary, Topology):
        server = shared(binary)
        if server not in started:
            started.append(server)
        return World(face, server)
    return World(face, shared_server(binary))


@pytest.fixture(scope="session", autouse=True)
def _servers():
    """End the shared servers with the session."""
    yield
    for server in started:
        server.close()
