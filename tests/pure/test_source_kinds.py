"""_io/sources/kinds.py: which connections of a user's client are made by ourselves."""

import pytest
from redis import asyncio as aio
from redis import connection

from fencelock._io.sources.kinds import is_plain


@pytest.mark.parametrize(
    "kind",
    [
        connection.Connection,
        connection.UnixDomainSocketConnection,
        aio.connection.Connection,
        aio.connection.UnixDomainSocketConnection,
    ],
)
def test_the_usual_connections_are_plain(kind):
    assert is_plain(kind)


def named(name, module):
    """Return a user's own kind of connection."""
    return type(name, (connection.Connection,), {"__module__": module})


@pytest.mark.parametrize(
    "kind",
    [
        connection.SSLConnection,
        aio.connection.SSLConnection,
        named("Connection", "theirs"),
        named("Tunnelled", "redis.connection"),
        named("Tunnelled", "theirs"),
    ],
)
def test_a_connection_that_may_do_more_than_ours_is_not_plain(kind):
    assert not is_plain(kind)
