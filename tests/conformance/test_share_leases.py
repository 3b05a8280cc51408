"""The leases of permits and of both sides of a reader/writer lock are as a lock's."""

import pytest

from fencelock import LeaseLost
from fencelock.scripts import SHARES_BREAK

pytestmark = pytest.mark.no_quorum  # a quorum has neither: see options.py

KINDS = pytest.mark.parametrize("kind", ["semaphore", "read", "write"])


def made(client, kind, *, ttl=1.0, **options):
    """Return a handle of a kind: a semaphore of one, or a side of a reader/writer lock."""
    if kind == "semaphore":
        return client.semaphore("a", 1, ttl=ttl, **options)
    return getattr(client.rwlock("a", read_ttl=ttl, write_ttl=ttl, **options), kind)


@KINDS
async def test_max_hold_ends_the_lease(world, kind):
    """I8, I11: and the holder is told once, with the reason."""
    told = []
    handle = made(world.client(), kind, ttl=0.3, max_hold=0.5, on_lost=told.append)
    assert await handle.acquire()
    await world.until(lambda: told, "it is told")
    with pytest.raises(LeaseLost, match="max_hold"):
        await handle.release()
    assert len(told) == 1
    await world.until(lambda: world.holders("a") == 0, "it ended on the server")


@KINDS
async def test_an_operator_s_break_is_told_with_its_reason(world, kind):
    """The next in line is granted."""
    told = []
    handle, after = made(world.client(), kind, on_lost=told.append), world.client()
    assert await handle.acquire()
    world.server.command(
        "EVAL", SHARES_BREAK.source, 6, *world.keys("a").all, "enough", 60_000, "", "1"
    )
    await world.until(lambda: told, "it is told")
    with pytest.raises(LeaseLost, match="enough"):
        await handle.release()
    async with made(after, kind):
        pass
