"""The fixture for tests of pytest-asyncio; imported only where that plugin is used."""

from __future__ import annotations

import pytest_asyncio

from fencelock.testing.lending import lend_async

_fencelock_asyncio_client = pytest_asyncio.fixture(lend_async)
