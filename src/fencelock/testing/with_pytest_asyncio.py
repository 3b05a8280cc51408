"""The fixture for tests of pytest-asyncio; imported only where that plugin is used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from fencelock.testing.lending import lend_async

if TYPE_CHECKING:
    from fencelock import AsyncClient
    from fencelock.testing.server import PrivateServer


async def _lend(
    request: pytest.FixtureRequest, fencelock_server: PrivateServer
) -> AsyncIterator[AsyncClient]:
    async for client in lend_async(request, fencelock_server):
        yield client


_fencelock_asyncio_client = pytest_asyncio.fixture(_lend)
