"""Hooks of monitoring systems, with the real packages and a real server."""

import pytest

import fencelock
from fencelock.instrumentation import set_hooks
from tests.patience import patient  # noqa: F401 - pytest finds the fixture here


@pytest.fixture
def client(server):
    with fencelock.Client(server.url) as made:
        yield made


@pytest.fixture(autouse=True)
def _no_hooks_after():
    yield
    set_hooks([])
