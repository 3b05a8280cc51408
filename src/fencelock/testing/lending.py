"""What the fixtures of clients share: they lend a client, and check what a test still holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fencelock import AsyncClient, Client
    from fencelock.testing.server import PrivateServer

LEAVES_HELD = "fencelock_leaves_held"


def complain(item: pytest.Item, left: list[str]) -> None:
    """Fail a test that left locks held, unless it is marked."""
    if left and item.get_closest_marker(LEAVES_HELD) is None:
        pytest.fail(f"still held at the end of the test: {', '.join(left)}", pytrace=False)


async def lend_async(
    request: pytest.FixtureRequest, fencelock_server: PrivateServer
) -> AsyncIterator[AsyncClient]:
    """Lend an asyncio client, and close it in its loop; what is still held by it is an error."""
    from fencelock import AsyncClient  # noqa: PLC0415 - pytest imports this module in every run

    client = AsyncClient(fencelock_server.url)
    yield client
    left = left_by(client, fencelock_server)
    await client.aclose(release=bool(left), timeout=1)
    complain(request.node, left)


def left_by(client: Client | AsyncClient, server: PrivateServer) -> list[str]:
    """Return what a client holds."""
    port, _ = client.__shared__()
    mine = port() if callable(port) else port
    return [words for hold, words in server.held().items() if hold.port is mine]
