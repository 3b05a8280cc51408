"""A holder is notified of a loss once, whoever notices it first, and the log says why (I8)."""

import contextlib
import time

import pytest

from fencelock import LeaseLost, NotHeld
from tests.kinds import MADE

BEFORE = 0.02  # of a lease's end: from there on its holder asks again and again
KINDS = MADE | {"election": lambda client, **options: client.election("a", **options)}
ALL_KINDS = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in {"lock", "rlock"} else pytest.mark.no_quorum)
        for kind in KINDS
        if kind != "permits"  # which are only entered
    ],
)


def made(client, kind, *, ttl=60.0, **options):
    """Return a handle of a kind, over the name ``a``."""
    ttls = ("read_ttl", "write_ttl") if kind in {"read", "write"} else ("ttl",)
    return KINDS[kind](client, **dict.fromkeys(ttls, ttl), **options)


def taking(handle, kind):
    """Return how a handle of a kind is acquired, and how it is released."""
    if kind == "election":
        return handle.campaign, handle.resign
    return handle.acquire, handle.release


def told_in_log(caplog):
    return [each.message for each in caplog.records if each.message.startswith("lost lease of")]


@ALL_KINDS
async def test_a_release_that_finds_the_loss_notifies_too(world, caplog, kind):
    """The server has forgotten the lease, and nobody knows before the release."""
    told = []
    handle = made(world.client(), kind, on_lost=told.append)
    acquire, release = taking(handle, kind)
    assert await acquire()
    lease = handle.lease
    world.server.command("DEL", world.key("a"))
    with pytest.raises(LeaseLost) as lost:
        await release()
    assert (lost.value.name, lost.value.reason) == ("a", "expired")  # nobody took it
    await world.until(lambda: told, "on_lost")
    assert lease.lost
    assert [each.lost for each in told] == [True]
    assert len(told_in_log(caplog)) == 1
    assert "it was no longer on the server" in told_in_log(caplog)[0]
    with contextlib.suppress(NotHeld):
        await release()
    assert len(told) == 1


@ALL_KINDS
async def test_the_holder_s_own_look_notifies_too(world, caplog, kind):
    """The one who asks the lease first sees its end before the background has a turn."""
    if kind == "election":
        return  # its lease is always renewed: see below
    told = []
    handle = made(world.client(), kind, ttl=0.5, renew=False, on_lost=told.append)
    assert await handle.acquire()
    lease = handle.lease
    time.sleep(max(0.0, lease.remaining() - BEFORE))  # noqa: ASYNC251 - no other runs
    while lease.remaining() > 0:
        pass
    with pytest.raises(LeaseLost):
        lease.check()
    await world.until(lambda: told, "on_lost")
    with pytest.raises(LeaseLost):
        await handle.release()
    assert len(told) == 1
    await world.until(lambda: told_in_log(caplog), "the log")
    assert all("expired: it was not renewed" in each for each in told_in_log(caplog))


@pytest.mark.one_server
async def test_a_leader_that_campaigns_again_at_once_is_notified_of_its_loss(world, caplog):
    """The new campaign is the first to notice that the leadership before is over."""
    told, server = [], world.alone()
    client = world.client(server_timeout=2)
    election = client.election("e", ttl=0.6, on_lost=told.append)
    assert await election.campaign()
    fence = election.lease.fence
    server.pause()
    while election.is_leader:
        pass
    server.resume()
    assert await election.campaign(timeout=5)
    await world.until(lambda: told, "on_lost")
    assert [each.fence for each in told] == [fence]
    assert len(told_in_log(caplog)) == 1
    assert "renewal" in told_in_log(caplog)[0]
    await election.resign()


async def test_a_lease_that_was_given_back_proves_nothing(world):
    """Neither to the caller that released it, nor to any other that still has the lease."""
    told = []
    lock = world.client().lock("a", ttl=60, on_lost=told.append)
    async with lock as lease:
        lease.check()
    assert (lease.remaining(), lease.lost) == (0.0, False)
    with pytest.raises(NotHeld):
        lease.check()
    with pytest.raises(NotHeld):
        await lease.renew()
    with pytest.raises(NotHeld):
        await lock.release()
    assert told == []
