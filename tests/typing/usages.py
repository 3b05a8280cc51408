"""Documented uses, for type checkers: ``dev.py lint`` has mypy and pyright read this, strictly.

Nothing here runs. An error that is expected is silenced, and a silenced line without an error is
an error itself: so each line of this file is tested, by both checkers.
"""

import sqlite3
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, assert_type

import redis
import redis.asyncio

import fencelock
from fencelock import AsyncClient, AsyncLease, Client, Lease, MultiLease, Outcome
from fencelock.compat import redis_py
from fencelock.fences import (
    AsyncFenceGuard,
    AsyncRedisFenceGuard,
    BucketFenceGuard,
    FenceGuard,
    FencingToken,
    RedisFenceGuard,
)

client = Client()
tasks = AsyncClient()


# --- sources --------------------------------------------------------------------------------------


def sources(blocking: redis.Redis, cluster: redis.RedisCluster) -> None:
    Client("redis://localhost")
    Client(blocking)
    Client(cluster)
    Client(["redis://a", "redis://b", blocking])
    Client(None, ttl=timedelta(seconds=20), replicas=1)
    AsyncClient(blocking)  # type: ignore[arg-type]  # it is no asyncio client
    Client(7)  # type: ignore[arg-type]  # neither a URL nor a client


def asyncio_sources(client: redis.asyncio.Redis, cluster: redis.asyncio.RedisCluster) -> None:
    AsyncClient("redis://localhost")
    AsyncClient(client)
    AsyncClient(cluster)
    AsyncClient(["redis://a", "redis://b", client])
    Client(client)  # type: ignore[arg-type]  # it is no blocking client


# --- the lock -------------------------------------------------------------------------------------


def told(lease: Lease) -> None:
    assert_type(lease.fence, int)
    assert_type(lease.name, str)
    assert_type(lease.lost, bool)
    assert_type(lease.remaining(), float)
    assert_type(lease.holder, str)


def locks() -> None:
    lock = client.lock("a", ttl=30, max_hold=timedelta(hours=1), on_lost=told, strict=True)
    client.lock("a", ttl=datetime.now(UTC) + timedelta(minutes=5))
    client.lock("a", wait=fencelock.Poll(interval=0.5, max_tries=3))
    assert_type(lock.acquire(), bool)
    assert_type(lock.acquire(timeout=1), bool)
    assert_type(lock.acquire(blocking=False), bool)
    assert_type(lock.release(), None)
    assert_type(lock.lease, Lease | None)
    with lock as lease:
        assert_type(lease, Lease)
        assert_type(lease.renew(60), None)
    assert_type(client.rlock("a", owner="me").release(), int)
    lock.extend(5)  # type: ignore[attr-defined]  # redis-py's; ours is lease.renew
    client.lock("a", expire=5)  # type: ignore[call-arg]  # python-redis-lock's; ours is ttl
    client.lock("a", on_lost="cancel")  # type: ignore[arg-type]  # a thread cannot be cancelled


async def asyncio_locks() -> None:
    lock = tasks.lock("a", on_lost="cancel")
    assert_type(await lock.acquire(timeout=1), bool)
    assert_type(lock.lease, AsyncLease | None)
    async with lock as lease:
        assert_type(lease, AsyncLease)
        assert_type(await lease.renew(), None)


def other_objects() -> None:
    with client.semaphore("s", 3) as lease, client.rwlock("r").read as reader:
        assert_type(lease, Lease)
        assert_type(reader, Lease)
    with client.semaphore("s", 3).permits(2) as lease:
        assert_type(lease, Lease)
    sides, slots = client.rwlock("r"), client.semaphore("s", 3)
    with client.multi(["a", "b", client.lock("c"), sides.read, slots]) as both:
        assert_type(both.fences, Mapping[str, int])
    with client.election("leader", candidate="ann", on_elected=told) as term:
        assert_type(term, Lease)
    assert_type(client.event("e").wait(timeout=1), bool)
    assert_type(client.latch("l", 3).count_down(), int)
    assert_type(client.barrier("b", 3).wait(), int)


# --- every factory --------------------------------------------------------------------------------


def made_by_a_client() -> None:
    assert_type(client.lock("a"), fencelock.Lock)
    assert_type(client.rlock("a"), fencelock.RLock)
    assert_type(client.semaphore("s", 3), fencelock.Semaphore)
    assert_type(client.bounded_semaphore("s", 3), fencelock.BoundedSemaphore)
    assert_type(client.rwlock("r"), fencelock.RWLock)
    assert_type(client.multi(["a", "b"]), fencelock.MultiLock)
    assert_type(client.election("e"), fencelock.Election)
    assert_type(client.once("o", within=60), fencelock.Once[None])
    assert_type(client.once("o", within=60, lease="lease"), fencelock.Once[fencelock.Lease])
    assert_type(client.event("e"), fencelock.Event)
    assert_type(client.latch("l", 3), fencelock.Latch)
    assert_type(client.barrier("b", 3), fencelock.Barrier)
    client.multi([tasks.lock("a")])  # type: ignore[list-item]  # a lock of the other face
    client.condition("c")  # type: ignore[attr-defined]  # there is none any more


def made_by_an_asyncio_client() -> None:
    assert_type(tasks.lock("a"), fencelock.AsyncLock)
    assert_type(tasks.rlock("a"), fencelock.AsyncRLock)
    assert_type(tasks.semaphore("s", 3), fencelock.AsyncSemaphore)
    assert_type(tasks.bounded_semaphore("s", 3), fencelock.AsyncBoundedSemaphore)
    assert_type(tasks.rwlock("r"), fencelock.AsyncRWLock)
    assert_type(tasks.multi(["a", "b"]), fencelock.AsyncMultiLock)
    assert_type(tasks.election("e"), fencelock.AsyncElection)
    assert_type(tasks.once("o", within=60), fencelock.AsyncOnce[None])
    assert_type(
        tasks.once("o", within=60, lease="lease"), fencelock.AsyncOnce[fencelock.AsyncLease]
    )
    assert_type(tasks.event("e"), fencelock.AsyncEvent)
    assert_type(tasks.latch("l", 3), fencelock.AsyncLatch)
    assert_type(tasks.barrier("b", 3), fencelock.AsyncBarrier)
    tasks.election("e", on_elected=told)  # type: ignore[arg-type]  # it takes another lease
    tasks.rwlock("r", on_lost="cancel", reentrant=True)
    tasks.multi(["a"], on_lost="cancel")


# --- decorated functions --------------------------------------------------------------------------


@client.locked("invoice:{invoice_id}")
def pay(invoice_id: int, *, amount: float = 0.0) -> str:
    return f"{invoice_id} {amount}"


assert_type(pay(1, amount=2.0), str)
pay("1")  # type: ignore[arg-type]  # the parameters are those of the function


@client.locked("account:{number}", lease="lease")
def settle(number: int, lease: Lease) -> str:
    return f"{number} {lease.fence}"


assert_type(settle(7), str)
assert_type(settle(number=7), str)


@client.locked("report", on_busy="skip")
def report(day: str) -> str:
    return day


assert_type(report("Monday"), str | None)
report(1)  # type: ignore[arg-type]  # a day is a str


@client.locked("report", on_busy="skip", lease="lease")
def report_with_lease(day: str, lease: Lease) -> str:
    return f"{day} {lease.fence}"


assert_type(report_with_lease("Monday"), str | None)


class Shop:
    name = "corner"

    @client.locked("shop:{self.name}", on_busy="raise", timeout=None)
    def count(self, what: str) -> int:
        return len(what)

    @client.locked("shop:{self.name}", on_busy="skip")
    def tidy(self, room: int) -> int:
        return room


assert_type(Shop().count("bread"), int)
assert_type(Shop().tidy(1), int | None)


@tasks.locked("invoice:{invoice_id}")
async def pay_soon(invoice_id: int) -> str:
    return str(invoice_id)


@tasks.locked("invoice:{invoice_id}", lease="lease", on_busy="skip")
async def pay_maybe(invoice_id: int, lease: AsyncLease) -> str:
    return f"{invoice_id} {lease.fence}"


async def decorated() -> None:
    assert_type(await pay_soon(1), str)
    assert_type(await pay_maybe(1), str | None)
    assert_type(await assert_type(runs_once_soon("x"), Coro), Outcome[int])


@tasks.locked("sync")  # type: ignore[type-var]  # only coroutine functions
def blocks() -> None:
    pass


Coro = Coroutine[Any, Any, Outcome[int]]

# --- once -----------------------------------------------------------------------------------------


@client.once("draw:{day}", within=3600)
def draw(day: str) -> list[int]:
    return [len(day)]


assert_type(draw("Monday"), Outcome[list[int]])
assert_type(draw("Monday").value, list[int])
draw(1)  # type: ignore[arg-type]  # a day is a str


@client.once("invoices:{month}", within=86400, lease="lease")
def send_invoices(month: str, lease: Lease) -> int:
    return lease.fence + len(month)


assert_type(send_invoices("2026-11"), Outcome[int])


def plain(day: str) -> int:
    return len(day)


assert_type(client.once("n", within=60).run(plain, "Monday"), Outcome[int])
assert_type(client.once("n", within=60, lease="lease").run(send_invoices, "x").ran, bool)
client.once("n", within=60).run(plain, 1)  # type: ignore[arg-type]  # a day is a str
assert_type(client.once("n", within=60).outcome(), Outcome[Any])


@tasks.once("draw:{day}", within=3600)
async def runs_once_soon(day: str) -> int:
    return len(day)


# --- fence guards ---------------------------------------------------------------------------------


def fenced(connection: sqlite3.Connection, lease: Lease, both: MultiLease) -> None:
    guard = FenceGuard("locks.fences")
    guard.create(connection)
    guard.check(connection, lease)
    guard.check(connection, both)
    guard.check(connection, FencingToken("order", 7))
    guard.check(connection, 7)  # type: ignore[arg-type]  # neither a lease nor a token
    assert_type(guard.ddl("sqlite"), str)


def fenced_others(pipeline: object, lease: Lease, bucket: object) -> None:
    RedisFenceGuard("{orders}:").check(pipeline, lease)
    reports = BucketFenceGuard(bucket, "reports")
    reports.put("today", b"data", lease, ContentType="text/plain")
    assert_type(reports.get("today"), bytes)
    assert_type(reports.fence("today"), int)


async def fenced_soon(pipeline: object, connection: object, lease: AsyncLease) -> None:
    await AsyncFenceGuard().check(connection, lease)
    await AsyncRedisFenceGuard().check(pipeline, lease)


# --- redis-py's locks -----------------------------------------------------------------------------


def stand_in(server: redis.Redis) -> None:
    with redis_py.Lock(server, "report", timeout=30, blocking_timeout=5) as lock:
        assert_type(lock.extend(10), Literal[True])
        assert_type(lock.owned(), bool)
        assert_type(lock.lease, Lease | None)
    lock.acquire(token="mine")  # type: ignore[arg-type]  # the lock makes the token


async def stand_in_soon(server: redis.asyncio.Redis) -> None:
    async with redis_py.AsyncLock(server, "report") as lock:
        assert_type(await lock.acquire(blocking=False), bool)
        assert_type(lock.lease, AsyncLease | None)
