"""A load for each test, on workers over a server of its own."""

import contextlib

import pytest

from tests.integrations.load.judge import Load
from tests.integrations.recipes.page import Place
from tests.servers import Server


@pytest.fixture
def load(tmp_path):
    with Server() as server, contextlib.ExitStack() as stack:
        yield Load(Place(tmp_path, server.tcp_url, stack))
