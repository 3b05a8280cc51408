"""Each test once, for both faces and every kind of server; see world.py."""

from __future__ import annotations

from zlib import crc32

import pytest

from tests.conformance.book import FIRST, PLAYS, SECOND, the_book
from tests.conformance.world import FACES, World, shared_server, started
from tests.coroutines import pytest_pyfunc_call  # noqa: F401 - pytest finds the hook here
from tests.faces import has_turn, meets_all_means
from tests.patience import _patient, patient  # noqa: F401 - pytest finds the fixtures here
from tests.servers import ServerBinary, binaries
from tests.topologies import TOPOLOGIES, Topology, shared

# A scenario that uses one of these is about a server of its own, which ends with it, or counts
# connections, of which the clients of other scenarios have some.
ONE_PLAY = frozenset({"alone", "connections", "cluster_node"})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of a ``world`` for each face and server; under uvloop what is quick, on one.

    Under uvloop, and for asyncio on older servers, those that ``meets_all_means``.
    """
    if "world" not in metafunc.fixturenames:
        return
    newest, *others = binaries()
    by_each = meets_all_means(metafunc.definition)
    pairs = [(face, newest) for face in (FACES if by_each else FACES[:2])]
    if not getattr(metafunc.function, "needs_no_server", False):
        pairs += [(face, old) for old in others for face in (FACES[:2] if by_each else FACES[:1])]
        if not is_one_servers(metafunc):
            here = [each for each in TOPOLOGIES if each.has(metafunc.module.__name__)]
            pairs += [(face, topology) for topology in here for face in FACES[:2]]
    if metafunc.definition.get_closest_marker("sentinel"):
        pairs = [
            (face, each) for each in TOPOLOGIES if each.name == "sentinel" for face in FACES[:2]
        ]
    cases = [pytest.param(*pair, "", id=case_id(*pair)) for pair in pairs]
    if is_played_again(metafunc):
        face = FACES[crc32(metafunc.function.__qualname__.encode()) % 2]  # by turns
        cases += [
            pytest.param(face, newest, play, id=case_id(face, newest, play)) for play in PLAYS
        ]
    metafunc.parametrize(("face", "binary", "play"), cases)


def needs_both_faces(item: pytest.Item) -> bool:
    """Return True for a test of what the means could change, or of its topology alone."""
    return meets_all_means(item) or item.get_closest_marker("sentinel") is not None


def case_id(*values: object) -> str:
    return "-".join(map(str, values))


def is_played_again(metafunc: pytest.Metafunc) -> bool:
    """Return True if a scenario has a second time: on a shared server, with clients left open."""
    test, marked = metafunc.function, metafunc.definition.get_closest_marker
    if getattr(test, "needs_no_server", False):
        return False
    if any(marked(name) for name in ("slow", "sentinel", "one_play")):
        return False
    return ONE_PLAY.isdisjoint(test.__code__.co_names)


def is_one_servers(metafunc: pytest.Metafunc) -> bool:
    """Return True if a test is about one server: it says so, or starts one for itself alone."""
    says_so = metafunc.definition.get_closest_marker("one_server")
    return says_so is not None or "alone" in metafunc.function.__code__.co_names


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of the quorum what it does not support: whole tests, or some of their params.

    Where the means change nothing, a topology meets one of the two faces, by turns.
    """
    in_plays(items)
    left_out = {
        item
        for item in items
        if (_on_quorum(item) and item.get_closest_marker("no_quorum"))
        or (_on_topology(item) and not (needs_both_faces(item) or has_turn(item.nodeid)))
    }
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


def in_plays(items: list[pytest.Item]) -> None:
    """Put the second plays of a file behind all others of it: so their clients rest at once."""
    files: dict[object, int] = {}
    for number, item in enumerate(items):
        files.setdefault(item.path, number)
    items.sort(key=lambda item: (files[item.path], _play(item)))


def _play(item: pytest.Item) -> int:
    play = getattr(getattr(item, "callspec", None), "params", {}).get("play", "")
    return ("", *PLAYS).index(play)


def _on_quorum(item: pytest.Item) -> bool:
    return _on_topology(item) and item.callspec.params["binary"].quorum


def _on_topology(item: pytest.Item) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {})
    return isinstance(params.get("binary"), Topology)


@pytest.fixture
def world(
    face: str, binary: ServerBinary | Topology, play: str, request: pytest.FixtureRequest
) -> World:
    """Lend the test a face, the shared server of a kind, and a key prefix of its own."""
    made = _world(face, binary)
    case = request.node.nodeid.replace(f"-{play}", "") if play else ""
    if play == FIRST:
        the_book().begin(made, case)
    elif play == SECOND and not the_book().take(made, case):
        pytest.skip("its first play failed, or was in another process")
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
    the_book().close()
    for server in started:
        server.close()
