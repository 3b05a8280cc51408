"""An exploration ends by its own bound, which the test's must not forestall."""

import pytest

from tests.flows.worlds.locks import SECONDS


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "flows":
            item.add_marker(pytest.mark.timeout(SECONDS + 60))
