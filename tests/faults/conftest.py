"""One server for most tests, a proxy and clients of both faces for each."""

import itertools
import logging

import pytest

from fencelock import scripts
from tests.faults.children import Child
from tests.faults.proxy import Proxy
from tests.faults.world import FACES, View
from tests.patience import patient  # noqa: F401 - pytest finds the fixture here
from tests.servers import Server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def shared():
    with Server() as server:
        load(server)
        yield server


@pytest.fixture
def server(shared):
    """The shared server, empty."""
    shared.flushall()
    return shared


@pytest.fixture
def own_server():
    """A server that the test may freeze, restart and ruin."""
    with Server() as server:
        load(server)
        yield server


def load(server):
    """Give the server the scripts, so that a fault meets the call and not NOSCRIPT's answer."""
    for script in scripts.ALL:
        server.command("SCRIPT", "LOAD", script.source)


@pytest.fixture
def proxy(server):
    with Proxy(server) as proxy:
        yield proxy


@pytest.fixture(params=FACES, ids=lambda face: face.name)
def face(request):
    return request.param


@pytest.fixture
def connect(face):
    """Make clients of the face under test; all are closed at the end."""
    made = []

    def make(url, kind=face, **options):
        made.append(kind(url, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def start(face):
    """Start clients of the face under test in processes of their own; all end with the test."""
    made = []

    def make(url, *, count=None, **options):
        begun = [Child(face, url, **options) for _ in range(count or 1)]
        made.extend(begun)
        ready = [child.ready() for child in begun]
        return ready if count else ready[0]

    yield make
    for child in made:
        child.close()


@pytest.fixture
def name():
    return f"lock-{next(_numbers)}"


@pytest.fixture
def view(server, name):
    return View(server, name)


@pytest.fixture
def own_view(own_server, name):
    return View(own_server, name)


@pytest.fixture(autouse=True)
def _quiet():
    """Expected warnings are not for the screen."""
    logger = logging.getLogger("fencelock")
    before = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(before)
