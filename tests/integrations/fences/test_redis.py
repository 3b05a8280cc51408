"""The fence guard in transactions of Redis and Valkey, in threads and in asyncio."""

import asyncio

import pytest
import redis
import redis.asyncio

import fencelock
from fencelock.fences import AsyncRedisFenceGuard, FencingToken, RedisFenceGuard, Stale

pytestmark = pytest.mark.daily  # redis-py is always there
OLD, NEW = FencingToken("orders:42", 33), FencingToken("orders:42", 34)


class Threads:
    def __init__(self, url):
        self.client, self.guard = redis.Redis.from_url(url), RedisFenceGuard()
        self.pipelines = []

    def pipeline(self):
        self.pipelines.append(self.client.pipeline())
        return self.pipelines[-1]

    def check(self, pipeline, token):
        self.guard.check(pipeline, token)

    def execute(self, pipeline):
        return pipeline.execute()

    def close(self):
        for each in self.pipelines:
            each.reset()  # one that still watches would connect again when it is collected
        self.client.close()


class Tasks:
    def __init__(self, url):
        self.runner, self.pipelines = asyncio.Runner(), []
        self.client, self.guard = redis.asyncio.Redis.from_url(url), AsyncRedisFenceGuard()

    def pipeline(self):
        self.pipelines.append(self.client.pipeline())
        return self.pipelines[-1]

    def check(self, pipeline, token):
        self.runner.run(self.guard.check(pipeline, token))

    def execute(self, pipeline):
        return self.runner.run(pipeline.execute())

    def close(self):
        for each in self.pipelines:
            self.runner.run(each.aclose())
        self.runner.run(self.client.aclose())
        self.runner.close()


@pytest.fixture(params=[Threads, Tasks])
def world(request, locks):
    locks.flushall()
    made = request.param(locks.url)
    yield made
    made.close()


def write(world, token, body):
    pipeline = world.pipeline()
    world.check(pipeline, token)
    pipeline.set("document", body)
    world.execute(pipeline)


def test_the_older_of_two_is_refused(world, locks):
    write(world, NEW, "new")
    write(world, NEW, "new again")
    with pytest.raises(Stale) as refused:
        write(world, OLD, "old")

    assert (refused.value.fence, refused.value.seen) == (33, 34)
    assert locks.command("GET", "document") == "new again"


def test_an_older_one_that_was_checked_before_runs_nothing(world, locks):
    late = world.pipeline()
    world.check(late, OLD)
    late.set("document", "old")

    write(world, NEW, "new")

    with pytest.raises(redis.WatchError):
        world.execute(late)
    assert locks.command("GET", "document") == "new"
    with pytest.raises(Stale):
        world.check(world.pipeline(), OLD)


def test_two_transactions_of_one_lease_do_not_disturb_each_other(world, locks):
    write(world, NEW, "first")
    one = world.pipeline()
    world.check(one, NEW)
    one.append("document", ", one")
    other = world.pipeline()
    world.check(other, NEW)
    other.append("document", ", other")
    world.execute(other)
    world.execute(one)

    assert locks.command("GET", "document") == "first, other, one"


def test_the_leases_of_a_multi(world, locks):
    for older in ("a", "b"):
        with fencelock.Client(locks.url) as client, client.multi(["a", "b"]) as lease:
            write(world, lease, "both")
            late = world.pipeline()
            world.check(late, lease)
            late.set("document", "late")
            write(world, FencingToken(older, lease.fences[older] + 1), "new")
            with pytest.raises(redis.WatchError):
                world.execute(late)
            with pytest.raises(Stale, match=older):
                write(world, lease, "old")
    assert locks.command("GET", "document") == "new"


def _finish(check, pipeline):
    """Run a check of either face."""
    awaited = check(pipeline, NEW)
    awaited.send(None)


def test_what_is_no_fresh_pipeline_is_refused(world):
    with pytest.raises(TypeError, match="pipeline must be"):
        world.check(world.client, NEW)
    other = AsyncRedisFenceGuard() if isinstance(world, Threads) else RedisFenceGuard()
    with pytest.raises(TypeError, match="pipeline must be"):
        _finish(other.check, world.pipeline())
    used = world.pipeline()
    used.set("x", 1)
    with pytest.raises(ValueError, match="has commands already"):
        world.check(used, NEW)


def test_a_key_that_stores_something_else_is_named(world, locks):
    locks.command("SET", "fencelock_fences:orders:42", "seven")
    with pytest.raises(ValueError, match="'fencelock_fences:orders:42' stores no fence"):
        world.check(world.pipeline(), NEW)
