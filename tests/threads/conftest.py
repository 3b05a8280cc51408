"""One server for all thread tests, on the newest kind: threads do not care which."""

from __future__ import annotations

import itertools

import pytest

import fencelock
from tests.patience import _patient, patient  # noqa: F401 - pytest finds the fixtures here
from tests.servers import Server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server():
    """Lend one server for the whole run."""
    with Server() as running:
        yield running


@pytest.fixture
def prefix():
    """Lend each test keys of its own."""
    return f"t{next(_numbers)}:"


@pytest.fixture
def client(server, prefix, request):
    """Lend a client, closed afterwards."""
    strict = request.node.get_closest_marker("strict") is not None
    options = {"cohort": None} if strict else {}
    with fencelock.Client(server.url, key_prefix=prefix, **options) as made:
        yield made
