"""The databases, started once for all tests that need them."""

import pytest

from tests.integrations.fences.databases import mariadb, postgresql
from tests.servers import Server


@pytest.fixture(scope="session")
def postgres_socket():
    with postgresql() as folder:
        yield folder


@pytest.fixture(scope="session")
def mariadb_socket():
    with mariadb() as path:
        yield path


@pytest.fixture(scope="session")
def locks():
    with Server() as server:
        yield server
