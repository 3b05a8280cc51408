"""A folder for the recipe's module, and a server for the queue and the locks."""

import contextlib

import pytest

from tests.integrations.recipes.page import Place
from tests.servers import Server


@pytest.fixture
def place(tmp_path):
    with Server() as server, contextlib.ExitStack() as stack:
        yield Place(tmp_path, server.tcp_url, stack)
