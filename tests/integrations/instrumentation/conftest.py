"""Hooks of monitoring systems, with the real packages and a real server."""

import pytest

from fencelock.instrumentation import set_hooks
from tests.patience import patient  # noqa: F401 - pytest finds the fixture here


@pytest.fixture(autouse=True)
def _no_hooks_after():
    yield
    set_hooks([])
