"""Each test once for threads and once for asyncio, on five servers of its own."""

from __future__ import annotations

import pytest

from tests.conformance.world import FACES, World
from tests.coroutines import pytest_pyfunc_call  # noqa: F401 - pytest finds the hook here
from tests.patience import _patient, patient  # noqa: F401 - pytest finds the fixtures here
from tests.topologies.quorum import Quorum


@pytest.fixture(params=FACES[:2])
def world(request: pytest.FixtureRequest):
    """Lend the test a face and five servers, which it may kill."""
    with Quorum() as servers:
        yield World(request.param, servers)
