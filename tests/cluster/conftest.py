"""A Cluster for most tests, one of its own for those that break nodes; clients of both faces."""

import pytest

from tests.faults.conftest import _quiet, connect, face, load, name  # noqa: F401 - fixtures
from tests.faults.world import View
from tests.patience import patient  # noqa: F401 - pytest finds the fixture here
from tests.servers import binaries
from tests.topologies.cluster import Cluster


def lend(binary, *, calm=True):
    with Cluster(binary) as cluster:
        if calm:
            cluster.calm()
        for node in cluster.masters:
            load(node)
        yield cluster


@pytest.fixture(scope="session")
def shared():
    yield from lend(binaries()[0])


@pytest.fixture(scope="session", params=binaries(), ids=str)
def each_kind(request):
    """A Cluster of every kind of server: with sharded channels and without."""
    yield from lend(request.param)


@pytest.fixture
def own():
    """A Cluster whose nodes the test may kill."""
    yield from lend(binaries()[0], calm=False)


@pytest.fixture
def view(shared, name):  # noqa: F811 - the fixture
    return View(shared, name)
