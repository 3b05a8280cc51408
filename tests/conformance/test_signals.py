"""Events and latches: what they promise, through both faces and on every kind of server."""

import signal

import pytest
import redis

from fencelock import OutcomeUnknown, ServerError, ServerUnsuitable
from fencelock._core.keys import SignalKeys
from fencelock._core.objects import state_wait
from fencelock.scripts import LATCH
from tests.conformance.world import needs_no_server

pytestmark = pytest.mark.no_quorum  # a quorum has none: see options.py

WAITER = """
import sys, fencelock
url, prefix = sys.argv[1:]
event = fencelock.Client(url, key_prefix=prefix).event("a")
print("waits", flush=True)
event.wait()
print("went on", flush=True)
"""


def on_list(world, name="a"):
    """How many channels are told of a change."""
    watch = SignalKeys(world.prefix, name).watch[1]
    return world.server.command("ZCARD", watch)


async def listed(world, number, name="a"):
    await world.until(lambda: on_list(world, name) == number, f"{number} on the list")


# --- events ---------------------------------------------------------------------------------------


async def test_an_event_is_clear_until_it_is_set(world):
    one, other = world.client().event("a"), world.client().event("a")
    assert await one.is_set() is False
    assert await other.wait(0) is False
    assert await one.set() is None
    assert await other.is_set() is True
    assert await other.wait() is True
    assert await other.clear() is None
    assert await one.is_set() is False
    assert await one.wait(timeout=-1) is False


@pytest.mark.one_server  # counts commands: in a Cluster who waited long asks again
async def test_setting_tells_all_who_wait_in_one_command(world, monkeypatch):
    monkeypatch.setattr(state_wait, "HEARTBEAT_SECONDS", 600.0)  # a look would be counted, too
    clients = [world.client() for _ in range(3)]
    jobs = [world.start(client.event("a").wait()) for client in clients for _ in range(3)]
    await listed(world, 9 if world.blocking else 3)
    for client in clients:
        await client.event("a").is_set()  # behind what its waiters asked
    with world.commands() as sent:
        await clients[0].event("a").set()
        assert [await job.result() for job in jobs] == [True] * 9
    assert sent.scripts == 1
    assert on_list(world) == 0


async def test_who_waits_at_a_set_goes_on_even_if_it_is_cleared_at_once(world):
    event = world.client().event("a")
    jobs = [world.start(event.wait()) for _ in range(3)]
    await listed(world, 3 if world.blocking else 1)
    await event.set()
    await event.clear()
    assert [await job.result() for job in jobs] == [True] * 3
    assert await event.wait(0) is False


async def test_waiting_for_what_is_there_costs_one_command(world):
    event = world.client().event("a")
    await event.set()
    assert await event.wait()
    with world.commands() as sent:
        assert await event.wait()
    assert sent.scripts == 1


async def test_a_wait_that_times_out_leaves_nothing(world):
    event = world.client().event("a")
    assert await event.wait(0.05) is False
    assert on_list(world) == 0
    jobs = [world.start(event.wait(each)) for each in (0.1, 5)]
    assert await jobs[0].result() is False
    await event.set()
    assert await jobs[1].result() is True


@pytest.mark.one_server
async def test_a_waiter_outlives_its_connection(world):
    server = world.alone()
    job = world.start(world.client().event("a").wait())
    await listed(world, 1)
    for kind in ("normal", "pubsub"):
        server.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    await world.client().event("a").set()
    assert await job.result() is True


@pytest.mark.one_server
async def test_a_waiter_survives_a_restart_that_forgets(world):
    server = world.alone()
    job = world.start(world.client().event("a").wait())
    await listed(world, 1)
    server.restart()
    await listed(world, 1)
    await world.client().event("a").set()
    assert await job.result() is True


async def test_a_waiter_that_was_frozen_goes_on(world):
    """A waiter in another process, which hears no message while it is frozen."""
    with world.process(WAITER) as process:
        assert process.stdout.readline() == b"waits\n"
        await listed(world, 1)
        process.send_signal(signal.SIGSTOP)
        event = world.client().event("a")
        await event.set()
        await event.clear()
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == b"went on\n"


async def test_a_dead_waiter_is_forgotten_by_the_next_set(world):
    with world.process(WAITER) as process:
        assert process.stdout.readline() == b"waits\n"
        await listed(world, 1)
        process.kill()
    await world.client().event("a").set()
    assert on_list(world) == 0


async def test_an_event_is_kept_for_a_day_after_its_last_use(world):
    event = world.client().event("a")
    await event.set()
    assert 86_000_000 < world.pttl("a") <= 86_400_000
    short = world.client().event("b", idle_ttl=60)
    assert await short.wait(0.01) is False
    assert 59_000 < world.pttl("b") <= 60_000


async def test_an_event_that_is_forgotten_is_clear(world):
    event = world.client().event("a")
    await event.set()
    world.server.command("DEL", world.key("a"))
    assert await event.is_set() is False
    assert await event.wait(0) is False


# --- latches --------------------------------------------------------------------------------------


async def test_a_latch_opens_at_zero_and_stays_open(world):
    """To wait for it may be its first use: it does not return by accident."""
    one, other = world.client().latch("a", 3), world.client().latch("a", 3)
    assert await one.wait(0) is False
    assert await one.count() == 3
    job = world.start(other.wait())
    await listed(world, 1)
    assert await one.count_down() == 2
    assert await one.count_down(5) == 0
    assert await job.result() is True
    assert await one.count_down() == 0
    assert await one.wait() is True
    assert await other.count() == 0


async def test_a_latch_closes_again(world):
    latch = world.client().latch("a", 1)
    await latch.count_down()
    assert await latch.wait(0)
    assert await latch.reset() is None
    assert await latch.count() == 1
    assert await latch.wait(0) is False
    job = world.start(latch.wait())
    await listed(world, 1)
    await latch.count_down()
    assert await job.result() is True


async def test_another_count_is_an_error(world):
    await world.client().latch("a", 2).count_down()
    other = world.client().latch("a", 3)
    for use in (other.count, other.count_down, other.reset, other.wait):
        with pytest.raises(ServerUnsuitable, match=r"a latch of 2, not of 3"):
            await use()
    assert await world.client().latch("a", 2).count() == 1


async def test_a_latch_that_is_not_in_use_takes_another_count(world):
    client = world.client()
    two, three = client.latch("a", 2), client.latch("a", 3)
    assert await two.wait(0) is False
    assert await three.count_down(3) == 0
    with pytest.raises(ServerUnsuitable, match=r"a latch of 3, not of 2"):
        await two.wait(0)
    await two.reset()
    assert await two.count() == 2
    job = world.start(two.wait())
    await listed(world, 1)
    with pytest.raises(ServerUnsuitable, match=r"a latch of 2, not of 3"):
        await three.reset()
    assert await two.count_down(2) == 0
    assert await job.result() is True


async def test_a_deleted_latch_begins_anew(world):
    client = world.client()
    two, three = client.latch("a", 2), client.latch("a", 3)
    assert await two.count_down() == 1
    job = world.start(two.wait())
    await listed(world, 1)
    await three.delete()
    assert await two.count() == 2
    assert await two.count_down(2) == 0
    assert await job.result() is True


async def test_a_deleted_event_is_clear(world):
    event = world.client().event("a")
    await event.set()
    await event.delete()
    assert await event.is_set() is False
    job = world.start(event.wait())
    await listed(world, 1)
    await event.delete()
    await event.set()
    assert await job.result() is True


@pytest.mark.slow
@pytest.mark.one_server  # what a script remembers is the same on every node
async def test_a_count_counts_once_however_many_came_since(world):
    """I4: a repetition may come as late as a client asks, after any number of other counts."""
    keys = SignalKeys(world.prefix, "a").all
    patience = 300_000

    def count(who):
        args = ("count_down", 60_000, who, 100_000, 1, patience)
        return LATCH, keys, args

    def ask(who):
        script, names, args = count(who)
        return world.server.command("EVAL", script.source, len(names), *names, *args)

    assert ask("first") == 99_999
    with redis.Redis.from_url(world.server.tcp_url) as others:
        pipe = others.pipeline(transaction=False)
        for number in range(10_050):
            script, names, args = count(f"other{number}")
            pipe.eval(script.source, len(names), *names, *args)
        pipe.execute()
    assert ask("first") == 99_999 - 10_050
    assert world.server.command("PTTL", keys[2]) > 2 * patience


@pytest.mark.one_server
async def test_what_was_answered_at_once_is_not_remembered_for_long(world):
    """A loop over one handle leaves one request on the server, not thousands."""
    event = world.client().event("a")
    for _ in range(20):
        await event.set()
        await event.clear()
    assert world.server.command("ZCARD", SignalKeys(world.prefix, "a").all[2]) <= 2


# --- mistakes -------------------------------------------------------------------------------------


@needs_no_server
async def test_mistakes_are_told_before_anything_is_sent(world):
    client = world.client("redis://127.0.0.1:1/0")
    for options, error, words in (
        ({"name": ""}, ValueError, "name"),
        ({"name": 1}, TypeError, "name"),
        ({"name": "a~watch"}, ValueError, "name"),
        ({"name": "a", "idle_ttl": 1}, ValueError, "idle_ttl"),
        ({"name": "a", "idle_ttl": True}, TypeError, "idle_ttl"),
        ({"name": "a", "idle_ttl": float("nan")}, ValueError, "idle_ttl"),
    ):
        with pytest.raises(error, match=words):
            client.event(**options)
        with pytest.raises(error, match=words):
            client.latch(count=1, **options)
    for count, error in ((0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)):
        with pytest.raises(error, match="count"):
            client.latch("a", count)
    with pytest.raises(TypeError, match="timeout"):
        await client.event("a").wait("1")
    with pytest.raises(ValueError, match="timeout"):
        await client.event("a").wait(float("nan"))
    with pytest.raises(OverflowError, match="timeout"):
        await client.event("a").wait(1e20)
    with pytest.raises(ValueError, match="n must"):
        await client.latch("a", 2).count_down(0)


@pytest.mark.one_server
async def test_a_server_that_is_gone_is_not_a_false(world):
    """I12: no answer is an error, also at the end of a timeout."""
    server = world.alone()
    event = world.client(server_timeout=0.5).event("a")
    assert await event.wait(0.01) is False
    server.kill()
    for use in (event.is_set, event.set, event.clear, event.wait):
        with pytest.raises((ServerError, OutcomeUnknown)):
            await use()
