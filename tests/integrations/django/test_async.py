"""Django's asynchronous code, asynchronous commands, and caches with ``lock``."""

import asyncio
import gc
import threading
import warnings

import pytest

pytest.importorskip("django")

from asgiref.sync import ThreadSensitiveContext, async_to_sync, sync_to_async
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand
from django.test import override_settings

from fencelock.contrib.django import aclient, alock, django_command_lock, lock

SOON = 20.0
pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture
def setting(server):
    with override_settings(FENCELOCK={"source": server.tcp_url, "ttl": 20}):
        yield


# --- coroutines -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("setting")
@pytest.mark.parametrize("made", [lock, alock])
def test_a_coroutine_holds_a_lock(made, elsewhere):
    async def view():
        async with made("order:7", timeout=5) as lease:
            assert elsewhere.status("order:7").holder.fence == lease.fence
            return lease.ttl

    assert async_to_sync(view)() == 20
    assert not elsewhere.lock("order:7").locked()


@pytest.mark.usefixtures("setting")
def test_a_lock_that_waits_for_a_commit_is_refused_in_a_coroutine(elsewhere):
    async def view():
        async with lock("order:7", release="on_commit"):
            pass

    with pytest.raises(ValueError, match="needs `with`"):
        async_to_sync(view)()
    assert not elsewhere.lock("order:7").locked()


@pytest.mark.usefixtures("setting")
@pytest.mark.parametrize("made", [lock, alock])
def test_a_cancelled_coroutine_keeps_its_lock_until_its_function_has_ended(made, elsewhere):
    """Django cancels a view whose client leaves; what ``sync_to_async`` runs for it goes on."""
    began, go, held = threading.Event(), threading.Event(), []

    def bill():
        began.set()
        go.wait(SOON)
        held.append(elsewhere.lock("order:7").locked())

    async def view():
        async with ThreadSensitiveContext(), made("order:7"):
            await sync_to_async(bill)()

    async def play():
        task = asyncio.create_task(view())
        await asyncio.to_thread(began.wait, SOON)
        task.cancel()
        await asyncio.wait({task}, timeout=0.2)  # time to release, if it did
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert held == [True]
    assert not elsewhere.lock("order:7").locked()


@pytest.mark.usefixtures("setting")
def test_each_loop_closes_its_connection_at_its_end():
    async def view():
        async with alock("order:7"):
            return aclient()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len({id(async_to_sync(view)()) for _ in range(3)}) == 1
        assert asyncio.run(view()) is asyncio.run(view())
        gc.collect()


def test_the_asyncio_client_needs_a_loop():
    with pytest.raises(RuntimeError, match="no running event loop"):
        aclient()


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("setting")
def test_a_command_may_be_a_coroutine(elsewhere):
    class Command(BaseCommand):
        def add_arguments(self, parser):
            parser.add_argument("--account", type=int)

        async def handle(self, *args, account, **options):
            await asyncio.sleep(0)
            return elsewhere.status(f"import:{account}").holder.label

    locked = django_command_lock("import:{account}")(Command)()
    assert call_command(locked, account=3).startswith("manage.py ")
    with elsewhere.lock("import:3"), pytest.raises(CommandError, match="is held by"):
        call_command(locked, account=3)


@pytest.mark.usefixtures("setting")
def test_a_loss_cancels_the_coroutine_of_a_command(elsewhere):
    ended = []

    @django_command_lock("tidy")
    class Command(BaseCommand):
        async def handle(self, *args, **options):
            elsewhere.revoke("tidy", reason="a test")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append("yes")

    with pytest.raises(CommandError, match="a test") as told:
        call_command(Command())
    assert (told.value.returncode, ended) == (76, ["yes"])


def test_a_value_cannot_make_the_name_of_another_command_lock():
    from fencelock.contrib.django.commands import filled_in  # noqa: PLC0415  # after the set-up

    assert filled_in("a:{b}:{c}", {"b": "1:2", "c": "3"}) == "a:1%3A2:3"
    assert filled_in("a:{b}:{c}", {"b": 1, "c": "2:3"}) == "a:1:2:3"


# --- caches ---------------------------------------------------------------------------------------


@pytest.fixture
def cache(server):
    from django.core.cache import caches  # noqa: PLC0415  # after the set-up

    backend = {"BACKEND": "fencelock.contrib.django.cache.RedisCache", "LOCATION": server.tcp_url}
    with override_settings(CACHES={"default": {**backend, "KEY_PREFIX": "shop"}}):
        yield caches["default"]


def test_the_lock_of_a_cache_has_the_methods_of_redis_py(cache):
    held = cache.lock("report", timeout=20)
    assert held.acquire(blocking=False)
    other = cache.lock("report", blocking_timeout=0.05)
    assert not other.acquire()
    assert held.extend(5)
    assert held.owned()
    held.release()
    with cache.lock("report") as again:
        assert again.lease.fence > 0
    assert not held.locked()


def test_the_lock_of_a_cache_excludes_that_of_django_redis(cache):
    redis = cache._cache.get_client(write=True)
    theirs = redis.lock(cache.make_key("report", version=3), timeout=20)
    assert theirs.acquire()
    assert not cache.lock("report", version=3).acquire(blocking=False)
    with cache.lock("report"):
        pass
    theirs.release()


def test_all_caches_of_a_server_share_a_client(cache):
    from django.core.cache import caches  # noqa: PLC0415  # after the set-up

    first = cache.lock("a")
    del caches["default"]  # as a new thread finds it
    other = caches["default"].lock("a")
    assert first.redis is other.redis


@pytest.mark.parametrize(
    "kind", ["default.DefaultClient", "herd.HerdClient", "sharded.ShardClient"]
)
def test_a_cache_of_django_redis_gets_the_method_too(server, kind):
    """It excludes the lock that django-redis itself has, and the other way round."""
    django_redis = pytest.importorskip("django_redis.cache")
    from fencelock.contrib.django.cache import CacheLocks  # noqa: PLC0415  # after the set-up

    class Cache(CacheLocks, django_redis.RedisCache):
        pass

    options = {"CLIENT_CLASS": f"django_redis.client.{kind}"}
    setting = server.tcp_url, {"KEY_PREFIX": "shop", "VERSION": 3, "OPTIONS": options}
    ours, theirs = Cache(*setting), django_redis.RedisCache(*setting)
    with ours.lock("report", timeout=20) as held:
        assert held.lease.fence > 0
        assert not theirs.lock("report", timeout=20).acquire(blocking=False)
    with theirs.lock("report", timeout=20):
        assert not ours.lock("report").acquire(blocking=False)
    theirs.close()
