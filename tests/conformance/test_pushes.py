"""What is pushed to a client: several messages at once, and messages that are none of ours."""

import logging

import pytest

from fencelock import LeaseLost
from fencelock._io import renewal_thread, renewal_timer
from fencelock.scripts import SHARES_BREAK

# Which messages a client hears, and in which packets, is one server's matter.
pytestmark = [pytest.mark.one_server, pytest.mark.no_quorum]

NUMBER = 40
MALFORMED = (
    *("", "granted", "granted a", "granted a one 2 3", "granted a 1 2 3 4", b"\xff\xfe"),
    *("signal", "signal 1", "signal 1 open", "signal one open a", "revoked", b"revoked \xff \xff"),
    *("again", "nonsense"),
)


def revoke(world, name):
    keys = world.keys(name).all
    world.server.command("EVAL", SHARES_BREAK.source, len(keys), *keys, "enough", 60_000, "", "1")


def channels(world):
    """Return the channels that clients listen to."""
    return world.server.command("PUBSUB", "CHANNELS", "*@*")


def complaints(caplog):
    """Return what was logged about pushes that do not parse, and whatever is worse."""
    return [each for each in caplog.records if each.levelno >= logging.WARNING]


async def test_every_revocation_of_one_packet_is_heard(world, monkeypatch):
    """I8: all permits of one client, revoked by one script; the next renewal is 20 s away.

    No question whether the connection is alive has it read once more.
    """
    for module in (renewal_thread, renewal_timer):
        monkeypatch.setattr(module, "QUIET_SECONDS", 600.0)
    client, told = world.client(), []
    first = client.semaphore("first", 1, ttl=60, on_lost=told.append)
    semaphore = client.semaphore("a", NUMBER, ttl=60, on_lost=told.append)
    assert await first.acquire()
    for _ in range(NUMBER):
        assert await semaphore.acquire()
    await world.until(lambda: channels(world), "revocations are heard")
    revoke(world, "first")
    await world.until(lambda: len(told) == 1, "the look after the subscription is over")
    revoke(world, "a")
    await world.until(lambda: len(told) == 1 + NUMBER, "every holder is notified")
    for _ in range(NUMBER):
        with pytest.raises(LeaseLost, match="enough"):
            await semaphore.release()


@pytest.mark.one_play  # it writes to all channels
async def test_messages_of_others_change_nothing(world, caplog):
    """A tenant that may publish anywhere stops no renewal, no waiter, and fills no log."""
    client, other = world.client(), world.client()
    lock, event, after = client.lock("a", ttl=1.0), client.event("b"), other.lock("a")
    assert await lock.acquire()
    waits = world.start(after.acquire())
    await world.in_line("a", 1)
    listens = world.start(event.wait())
    await world.until(lambda: len(channels(world)) >= 3 - (not world.blocking), "all listen")
    for channel in channels(world):
        for message in MALFORMED:
            world.server.command("PUBLISH", channel, message)
    before = world.pttl("a")
    await world.until(lambda: world.pttl("a") > before, "the lease is renewed")
    await event.set()
    assert await listens.result() is True
    await lock.release()
    assert await waits.result() is True
    await after.release()
    assert len(complaints(caplog)) == 2, "once for each client"
    assert all("cannot be parsed" in each.getMessage() for each in complaints(caplog))
