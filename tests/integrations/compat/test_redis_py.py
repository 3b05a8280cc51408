"""The stand-ins for redis-py's locks: its names, arguments, results and errors, in both faces.

The tests are written for asyncio; for threads each call of a lock or client is awaited at once.
"""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import warnings

import pytest
import redis
import redis.asyncio

import fencelock
from fencelock._io.port_blocking import BlockingPort
from fencelock.compat import redis_py

pytestmark = pytest.mark.daily  # redis-py is always there


class Face:
    """One of the two faces, with a client of redis-py for each."""

    def __init__(self, server, runner):
        self.server, self.runner, self.clients = server, runner, []

    def call(self, found):
        return self.runner.run(found) if asyncio.iscoroutine(found) else found

    def client(self, **more):
        self.clients.append(self.redis.from_url(self.server.url, **more))
        return self.clients[-1]

    def lock(self, name="report", client=None, **options):
        made = client or (self.clients or [self.client()])[0]
        return Calls(self, made.lock(name, lock_class=self.kind, **options))


class Threads(Face):
    redis, kind = redis.Redis, redis_py.Lock

    def close(self):
        for each in self.clients:
            redis_py.close(each)
            each.close()


class Tasks(Face):
    redis, kind = redis.asyncio.Redis, redis_py.AsyncLock

    def close(self):
        for each in self.clients:
            self.runner.run(redis_py.aclose(each))
            self.runner.run(each.aclose())


class Calls:
    """A lock whose calls are awaited where need be; also a context manager of both kinds."""

    def __init__(self, face, lock):
        self.face, self.lock = face, lock

    def __getattr__(self, name):
        found = getattr(self.lock, name)
        if not callable(found) or name == "local":
            return found
        return lambda *args, **options: self.face.call(found(*args, **options))

    def __enter__(self):
        enter = getattr(self.lock, "__aenter__", None) or self.lock.__enter__
        assert self.face.call(enter()) is self.lock
        return self

    def __exit__(self, *error):
        leave = getattr(self.lock, "__aexit__", None) or self.lock.__exit__
        return self.face.call(leave(*error))


@pytest.fixture(params=[Threads, Tasks], ids=["threads", "tasks"])
def face(request, server):
    with asyncio.Runner() as runner:
        made = request.param(server, runner)
        yield made
        made.close()


def test_the_key_and_the_token_are_redis_py_s(face, server):
    lock = face.lock("report", timeout=600)
    assert lock.acquire() is True
    assert server.command("GET", "report").encode() == lock.local.token
    assert 500_000 < server.command("PTTL", "report") <= 600_000
    assert (lock.owned(), lock.locked()) == (True, True)

    assert lock.release() is None

    assert lock.local.token is None
    assert server.command("GET", "report") is None
    assert (lock.owned(), lock.locked()) == (False, False)


def test_a_lease_with_a_timeout_ends_by_it_and_one_without_is_renewed(face, server):
    fixed, renewed = face.lock("fixed", timeout=0.2), face.lock("renewed")
    assert renewed.acquire()
    for _ in range(2):
        assert fixed.acquire()
        while server.command("EXISTS", "fixed"):
            pass
    assert len([*fixed.lock._handle.__shared__()[1].all()]) == 1, "what is lost is forgotten"
    assert [each.lease.terms.options.renew for each in (fixed, renewed)] == [False, True]
    with pytest.raises(redis.exceptions.LockNotOwnedError) as lost:
        fixed.release()
    assert lost.value.lock_name == "fixed"
    assert isinstance(lost.value.__cause__, fencelock.LeaseLost)
    assert fixed.local.token is None
    assert server.command("TTL", "renewed") > 25
    renewed.release()


def test_it_and_redis_py_s_own_lock_exclude_each_other(face, server):
    theirs = redis.Redis.from_url(server.url)
    own, other = face.lock("report", timeout=10), theirs.lock("report", timeout=10)
    assert own.acquire()
    assert not other.acquire(blocking=False)
    own.release()
    assert other.acquire(blocking=False)
    assert not own.acquire(blocking=False)
    assert own.locked()
    assert not own.owned()
    other.release()
    assert own.acquire(blocking=False)
    own.release()
    theirs.close()


@pytest.mark.parametrize("waits", [{"blocking": False}, {"blocking_timeout": 0.05}])
def test_what_is_held_is_not_acquired_in_time(face, waits):
    first, second = face.lock(timeout=10), face.lock(timeout=10, **waits)
    assert first.acquire()
    assert second.acquire() is False
    assert face.lock(timeout=10).acquire(**waits) is False
    with pytest.raises(redis.exceptions.LockError) as refused, second:
        pass
    assert refused.value.lock_name == "report"
    assert not isinstance(refused.value, redis.exceptions.LockNotOwnedError)
    first.release()


def test_a_timeout_that_has_passed_tries_once(face):
    assert face.lock(timeout=10, blocking_timeout=0).acquire()
    assert not face.lock(timeout=10, blocking_timeout=-1).acquire()


def test_extend_adds_or_replaces(face, server):
    lock = face.lock(timeout=600.5)
    assert lock.acquire()
    assert lock.extend(600.5) is True
    assert 1_100_000 < server.command("PTTL", "report") <= 1_201_000
    assert lock.extend(1_500, replace_ttl=True) is True
    assert 1_300_000 < server.command("PTTL", "report") <= 1_500_000
    lock.release()


def test_nothing_shortens_a_lease(face, server):
    lock = face.lock(timeout=600)
    assert lock.acquire()
    assert lock.extend(600) is True
    for call in (
        lambda: lock.extend(300, replace_ttl=True),
        lambda: lock.extend(0, replace_ttl=True),
        lambda: lock.extend(0),
        lock.reacquire,
    ):
        assert call() is True
        assert 1_100_000 < server.command("PTTL", "report") <= 1_200_000
        assert lock.lease.remaining() > 1_000
    for replace in (False, True):
        with pytest.raises(redis.exceptions.LockError, match="release it instead"):
            lock.extend(-10, replace)
    lock.release()
    server.command("SET", "report", "mine")
    lock.local.token = b"mine"
    with pytest.raises(redis.exceptions.LockNotOwnedError, match="without an expiry"):
        lock.extend(10)
    assert server.command("PTTL", "report") == -1


@pytest.mark.parametrize("call", ["extend", "reacquire"])
def test_what_cannot_be_prolonged(face, server, call):
    args = (10,) if call == "extend" else ()
    with pytest.raises(redis.exceptions.LockError, match="not owned"):
        getattr(face.lock(timeout=10), call)(*args)
    endless = face.lock()
    assert endless.acquire()
    with pytest.raises(redis.exceptions.LockError, match="without a timeout"):
        getattr(endless, call)(*args)
    endless.release()
    for instead in (["SET", "report", "another"], ["DEL", "report"]):
        lock = face.lock(timeout=10)
        assert lock.acquire()
        server.command(*instead)
        with pytest.raises(redis.exceptions.LockNotOwnedError, match="no longer owned"):
            getattr(lock, call)(*args)
        server.command("DEL", "report")


def test_releasing_what_is_not_held(face, server):
    lock = face.lock()
    with pytest.raises(redis.exceptions.LockError, match="not owned"):
        lock.release()
    assert lock.acquire()
    server.command("SET", "report", "another")
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        lock.release()
    assert server.command("GET", "report") == "another"


def test_an_error_at_the_end_of_the_block_is_raised_or_logged(face, caplog):
    with pytest.raises(redis.exceptions.LockError), face.lock(timeout=10) as lock:
        lock.release()
    caplog.clear()
    with face.lock(timeout=10, raise_on_release_error=False) as lock:
        lock.release()
    assert "at the end of its block" in caplog.text


def test_a_token_may_travel_to_another_lock(face, server):
    """As from a web server to a worker: the worker has only the name and the token."""
    lock, other = (face.lock(timeout=10) for _ in range(2))
    assert lock.acquire()
    other.local.token = lock.local.token.decode()
    assert other.owned()
    assert other.reacquire()
    other.release()
    assert server.command("GET", "report") is None
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        other.do_release("unknown")


@pytest.mark.parametrize("last", ["release", "extend"])
def test_a_lease_that_was_prolonged_elsewhere_is_still_its_acquirer_s(face, server, last):
    """Also when it has ended by the acquirer's clock: only the server knows."""
    lock, other = face.lock(timeout=0.2), face.lock(timeout=600)
    assert lock.acquire()
    fence = lock.lease.fence
    other.local.token = lock.local.token
    assert other.reacquire()
    while not lock.lease.lost:
        pass
    if last == "extend":
        assert lock.extend(600) is True
        assert server.command("PTTL", "report") > 1_000_000
        assert (lock.lease.fence, lock.lease.lost) == (fence, False)
    lock.release()
    assert server.command("GET", "report") is None


def test_a_thread_that_stands_still_after_its_grant_has_its_own_token(server, monkeypatch):
    """Meanwhile its lease ends, and another thread acquires by the same object."""
    client, still, go = redis.Redis.from_url(server.url), threading.Event(), threading.Event()
    lock, plain = redis_py.Lock(client, "report", timeout=0.2), BlockingPort.acquire

    def acquire(*args):
        hold = plain(*args)
        if threading.current_thread() is slow:
            still.set()
            go.wait(20)
        return hold

    def acquired_and_released():
        assert lock.acquire()
        with pytest.raises(redis.exceptions.LockNotOwnedError):
            lock.release()
        refused.append(True)

    monkeypatch.setattr(BlockingPort, "acquire", acquire)
    slow, refused = threading.Thread(target=acquired_and_released), []
    slow.start()
    assert still.wait(20)
    while server.command("EXISTS", "report"):
        pass
    lock.timeout, ours = 600, redis_py.Lock(client, "report", timeout=600)
    lock._handle = ours._handle
    assert lock.acquire(blocking=False)
    go.set()
    slow.join()
    assert refused
    assert lock.owned()
    lock.release()
    redis_py.close(client)
    client.close()


ODD = [
    *({"timeout": odd} for odd in (-1, -0.5, 0.0004, "3", 1e18, float("inf"))),
    *({"blocking_timeout": odd} for odd in (0, -1, "1", float("inf"), 1e18)),
    *({"name": odd} for odd in (b"\xff\xfe", "a b", "{a}b", "\xe9", b"", None, [], True, 7)),
]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_odd_arguments_are_accepted_and_refused_as_by_redis_py(server, odd):
    client = redis.Redis.from_url(server.url)

    def tried(kind):
        client.flushall()
        try:
            lock = kind(client, **{"name": "report", "timeout": 5} | odd)
            assert lock.acquire()
            with pytest.raises((redis.RedisError, TypeError, OverflowError)) as refused:
                lock.extend("3")
            keys = [key for key in client.scan_iter() if b"~" not in key]
            return keys, lock.owned(), lock.release(), type(refused.value)
        except Exception as error:  # noqa: BLE001 - whatever it is, both raise it
            return type(error)

    theirs = tried(redis.lock.Lock)
    if odd == {"name": b""}:
        theirs = redis.exceptions.DataError  # fencelock has no empty name
    assert tried(redis_py.Lock) == theirs
    redis_py.close(client)
    client.close()


def test_who_leaves_the_body_in_a_child_process_releases_nothing(server):
    client = redis.Redis.from_url(server.url)
    with client.lock("report", timeout=60, lock_class=redis_py.Lock) as lock:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
            child = os.fork()
        if not child:
            try:
                lock.__exit__(None, None, None)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert lock.owned()
    redis_py.close(client)
    client.close()


def test_a_token_of_one_s_own_is_refused(face):
    """Two holders with one token would both be granted."""
    with pytest.raises(TypeError, match="makes the token itself"):
        face.lock().acquire(token="mine")


def test_clients_that_decode_and_names_in_bytes(face):
    client = face.client(decode_responses=True)
    lock = face.lock(b"report", client, timeout=10)
    assert lock.acquire()
    assert lock.owned()
    lock.release()


def test_a_lock_that_is_dropped_keeps_its_timeout_and_says_nothing(face, server):
    """The idiom of a pause: acquired, never released."""
    lock = face.lock(timeout=10)
    assert lock.acquire()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del lock
        gc.collect()
    assert server.command("PTTL", "report") > 5_000


def test_errors_of_the_server_are_redis_py_s(face, own_server):
    face.server = own_server
    lock = face.lock(client=face.client(), timeout=10)
    own_server.command("SADD", "report", "x")
    with pytest.raises(redis.exceptions.ResponseError):
        lock.acquire()
    own_server.kill()
    with pytest.raises(redis.exceptions.ConnectionError):
        lock.acquire(blocking_timeout=0.2)


def test_a_cancelled_release_is_completed_or_can_be_repeated(server):
    async def main():
        async with redis.asyncio.Redis.from_url(server.url) as client:
            lock = client.lock("cancelled", timeout=10, lock_class=redis_py.AsyncLock)
            assert await lock.acquire()
            released = asyncio.ensure_future(lock.release())
            await asyncio.sleep(0)
            released.cancel()
            await asyncio.gather(released, return_exceptions=True)
            if lock.local.token is not None:
                await lock.release()
            while await lock.locked():
                pass
            await redis_py.aclose(client)

    asyncio.run(main())


WAITER = """
import sys, redis
from fencelock.compat.redis_py import Lock
client = redis.Redis.from_url(sys.argv[1])
with client.lock("report", timeout=10, lock_class=Lock, sleep=30):
    print("mine", flush=True)
"""


def test_a_release_wakes_the_waiter_of_another_process(server):
    """``sleep`` plays no part: redis-py's own lock would sleep for half a minute."""
    client = redis.Redis.from_url(server.url)
    lock = client.lock("report", timeout=60, lock_class=redis_py.Lock)
    assert lock.acquire()
    command = [sys.executable, "-c", WAITER, server.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiter:
        while not server.command("ZCARD", "{report}~queue"):
            pass
        lock.release()
        assert waiter.communicate(timeout=20)[0] == "mine\n"
    redis_py.close(client)
    client.close()
