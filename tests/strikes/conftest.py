"""Servers for plays: one, or several that look like one; see plays.py."""

from __future__ import annotations

import pytest

from fencelock._io import cleanup_queue
from tests.conformance.conftest import _servers  # noqa: F401 - pytest finds the fixtures here
from tests.conformance.world import shared_server, started
from tests.patience import _patient, patient  # noqa: F401 - as above
from tests.servers import binaries
from tests.topologies import TOPOLOGIES, shared


@pytest.fixture(scope="session")
def server():
    """Lend one server for the whole run, of the newest kind."""
    return shared_server(binaries()[0])


def topology(name: str):
    """Lend several servers that look like one."""
    running = shared(next(each for each in TOPOLOGIES if each.name == name))
    if running not in started:
        started.append(running)
    return running


@pytest.fixture
def master():
    return topology("acknowledged")


@pytest.fixture
def nodes():
    return topology("quorum")


@pytest.fixture(autouse=True)
def _prompt(monkeypatch):
    """Have an undo, of which a strike counted an answer too many, wait for it no longer."""
    monkeypatch.setattr(cleanup_queue, "UNDO_SECONDS", 0.1)
