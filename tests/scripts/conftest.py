"""Each test calls scripts on a keyspace of its own."""

import pytest

from tests.scripts.calls import Space


@pytest.fixture
def space():
    return Space()
