"""``on_lost="cancel"``: a loss ends the body, and only the body (I8)."""

import asyncio
import contextlib
from weakref import WeakValueDictionary

import pytest

import fencelock
from fencelock import AsyncLease, LeaseLost, NotHeld
from fencelock._io import process_ports


def lose(world, *, ms: int = 300) -> None:
    """Give the lock to somebody else, so that the next renewal is refused."""
    world.server.command("SET", f"{world.prefix}a", "another", "PX", ms)


def cancellations() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def hold_on(world, lock, *, told: list | None = None, ms: int = 300) -> None:
    """Hold the lock, lose it, and wait for the end inside the body."""
    async with lock:
        lose(world, ms=ms)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            if told is not None:
                told.append(error)
            raise


async def test_a_loss_ends_the_body(world):
    """The body is cancelled; what leaves the ``async with`` is LeaseLost, no cancellation."""
    told = []
    lock = world.client().lock("a", ttl=6, on_lost="cancel")
    with pytest.raises(LeaseLost) as lost:
        await hold_on(world, lock, told=told, ms=20_000)
    assert lost.value.reason == "taken"
    assert isinstance(told[0], asyncio.CancelledError)
    assert cancellations() == 0
    await asyncio.sleep(0)  # no cancellation is left to strike here
    assert world.holder() in {"another", None}


async def refused_another(client):
    async with client.lock("b"):
        assert await client.lock("b").acquire(timeout=0.02) is False


async def handed_over(client):
    async with held_by_another(client) as go:
        asyncio.get_running_loop().call_later(0.02, go.set)
        async with client.lock("b"):
            pass


async def timed_out_around(client):
    """The caller's own cancellation strikes first, and is taken back."""
    async with held_by_another(client):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.lock("b").acquire()


@contextlib.asynccontextmanager
async def held_by_another(client):
    go, taken = asyncio.Event(), asyncio.Event()

    async def hold():
        async with client.lock("b"):
            taken.set()
            await go.wait()

    holds = asyncio.create_task(hold())
    await taken.wait()
    yield go
    go.set()
    await holds


async def a_body_that_was_lost(client):
    with contextlib.suppress(LeaseLost):
        async with client.lock("b", ttl=0.2, renew=False, on_lost="cancel"):
            await asyncio.Event().wait()


async def an_event(client):
    assert await client.event("b").wait(0.02) is False


async def a_renewal(client):
    async with client.lock("b") as lease:
        await lease.renew()


WAITS = (
    *(refused_another, handed_over, timed_out_around),
    *(a_body_that_was_lost, an_event, a_renewal),
)


@pytest.mark.parametrize("wait", WAITS, ids=lambda each: each.__name__)
async def test_a_loss_ends_a_body_that_has_waited(world, wait):
    """What was waited for inside, and how that ended, changes nothing of it."""
    client = world.client()
    told = []

    async def body() -> None:
        async with client.lock("a", ttl=6, on_lost="cancel"):
            await wait(client)
            lose(world, ms=20_000)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                told.append(error)
                raise

    with pytest.raises(LeaseLost) as lost:
        await body()
    assert (lost.value.name, lost.value.reason, len(told)) == ("a", "taken", 1)
    assert cancellations() == 0
    await asyncio.sleep(0)


async def in_wait_for(entering):
    await asyncio.wait_for(entering, 8)  # before Python 3.12 in a task of its own


async def in_a_task(entering):
    await asyncio.create_task(asyncio.wait_for(entering, 8))


async def in_gather(entering):
    await asyncio.gather(entering, asyncio.sleep(0))


async def in_shield(entering):
    await asyncio.shield(entering)


async def in_a_task_group(entering):
    async with asyncio.TaskGroup() as group:
        group.create_task(entering)


@pytest.mark.parametrize(
    "enter",
    [in_wait_for, in_a_task, in_gather, in_shield, in_a_task_group],
    ids=lambda each: each.__name__,
)
async def test_a_loss_ends_a_body_that_another_task_has_entered(world, enter):
    """As found: what was cancelled had ended when the lock was acquired, and the body ran on."""
    lock = world.client().lock("a", ttl=0.3, on_lost="cancel")

    async def body() -> None:
        async with asyncio.timeout(8), contextlib.AsyncExitStack() as stack:
            await enter(stack.enter_async_context(lock))
            lose(world, ms=20_000)
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost):
        await body()
    assert cancellations() == 0
    await asyncio.sleep(0)


async def test_a_body_whose_task_nobody_knows_is_warned_of(world, caplog):
    lock = world.client().lock("a", ttl=0.3, on_lost="cancel")
    stack = contextlib.AsyncExitStack()
    entering = asyncio.create_task(stack.enter_async_context(lock))
    with pytest.warns(RuntimeWarning, match="the task that enters it ends before it"):
        await world.until(entering.done)
    lose(world, ms=20_000)
    await world.until(lambda: "no known task runs its body" in caplog.text)
    with pytest.raises(LeaseLost):
        await stack.aclose()


async def test_the_outer_cancellation_goes_on(world):
    """Both at the same time: the task ends cancelled, as its canceller wishes."""
    lock = world.client().lock("a", ttl=0.3, on_lost="cancel")
    inside = []

    async def hold() -> None:
        async with lock as lease:
            inside.append(lease)
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await world.until(lambda: inside)
    lose(world)
    await world.until(lambda: inside[0].lost)
    task.cancel()
    await asyncio.wait({task}, timeout=8)
    if task.cancelled():
        return
    # The loss was through already, and the cancellation came after the end of the body.
    assert isinstance(task.exception(), LeaseLost)


async def test_an_outer_cancellation_in_the_same_turn_goes_on(world):
    """The very same turn of the loop: nobody's wish is lost, and the outer one decides."""
    task: asyncio.Task | None = None
    kept = []

    async def hold() -> None:
        async with lock as lease:
            kept.append(lease)
            lose(world)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                task.cancel()
                raise

    lock = world.client().lock("a", ttl=0.3, on_lost="cancel")
    task = asyncio.create_task(hold())
    await asyncio.wait({task}, timeout=8)
    assert task.cancelled()
    assert kept[0].lost


async def test_an_outer_timeout_is_told_from_the_loss(world):
    """asyncio.timeout around: LeaseLost when the lease was lost, TimeoutError when time was up."""
    client = world.client()
    with pytest.raises(LeaseLost):
        async with asyncio.timeout(8):
            await hold_on(world, client.lock("a", ttl=0.3, on_lost="cancel"))
    await world.nothing_left()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), client.lock("a", on_lost="cancel"):
            await asyncio.Event().wait()
    assert cancellations() == 0
    await world.nothing_left()


async def test_a_task_group_hears_of_the_loss(world):
    """A child's LeaseLost ends the others, as any error does."""
    lock = world.client().lock("a", ttl=0.3, on_lost="cancel")
    ended = []

    async def bystander() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(bystander())
            group.create_task(hold_on(world, lock))

    with pytest.raises(ExceptionGroup) as raised:
        await together()
    assert raised.group_contains(LeaseLost)
    assert ended == [True]


async def test_a_body_that_swallows_the_cancellation_is_told_all_the_same(world):
    """LeaseLost at the end, and no cancellation is left over."""
    lock = world.client().lock("a", ttl=0.3, on_lost="cancel")

    async def stubborn() -> None:
        async with lock:
            lose(world)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    with pytest.raises(LeaseLost):
        await stubborn()
    assert cancellations() == 0


async def test_an_error_of_the_body_itself_goes_on(world):
    """What the body raises on its way out is not hidden by the loss."""
    lock = world.client().lock("a", ttl=0.3, on_lost="cancel")

    async def clumsy() -> None:
        async with lock:
            lose(world)
            try:
                await asyncio.Event().wait()
            finally:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await clumsy()
    assert cancellations() == 0


async def test_the_outer_of_two_locks_is_lost(world):
    """The inner one is released in order; the loss leaves at the outer one."""
    client = world.client()
    outer, inner = client.lock("a", ttl=0.3, on_lost="cancel"), client.lock("b", on_lost="cancel")

    async def hold_both() -> None:
        async with outer, inner:
            lose(world)
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost) as lost:
        await hold_both()
    assert lost.value.name == "a"
    assert cancellations() == 0
    await world.nothing_left("b")


async def test_a_body_that_ended_in_time_is_never_cancelled(world):
    """A release ends the watch: nothing strikes the task later."""
    lock = world.client().lock("a", ttl=0.3, on_lost="cancel", renew=False)
    with contextlib.suppress(LeaseLost):  # the machine may stand still for its ttl
        async with lock:
            pass
    lease = world.client().lock("b", ttl=0.2, renew=False)
    await lease.acquire()
    kept = lease.lease
    await world.until(lambda: kept.lost)  # longer than the first would have lasted
    assert cancellations() == 0
    with pytest.raises(LeaseLost):
        await lease.release()


async def test_without_a_body_there_is_nothing_to_cancel(world):
    """acquire() and release() by hand: the loss is told by check() and release()."""
    lock = world.client().lock("a", ttl=0.3, on_lost="cancel", renew=False)
    await lock.acquire()
    lease = lock.lease
    assert isinstance(lease, AsyncLease)
    await world.until(lambda: lease.lost)
    assert cancellations() == 0
    with pytest.raises(LeaseLost):
        await lock.release()


async def test_a_body_that_finds_the_loss_itself_is_left_alone_afterwards(world):
    """Its own renewal raises LeaseLost; no cancellation strikes the task behind the body."""
    lock = world.client().lock("a", ttl=60, on_lost="cancel")

    async def renew() -> None:
        async with lock as lease:
            lose(world)
            await lease.renew()

    with pytest.raises(LeaseLost):
        await renew()
    assert cancellations() == 0
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_body_that_looks_and_goes_on_is_cancelled(world):
    """To see that the lease is lost is no reason to be let alone: the body is still in there."""
    lock = world.client().lock("a", ttl=0.3, on_lost="cancel", renew=False)

    async def look() -> None:
        async with lock as lease:
            while not lease.lost:  # without letting others run
                pass
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost):
        await look()
    assert cancellations() == 0


async def test_a_cancelled_release_leaves_nothing_proved(world):
    """It is carried out in the background, so the next in line may be granted at once."""
    client, other = world.client(), world.client()
    lock = client.lock("a", ttl=60)
    await lock.acquire()
    lease = lock.lease
    release = asyncio.create_task(lock.release())
    await asyncio.sleep(0)
    release.cancel()
    await asyncio.wait({release})
    assert (lease.remaining(), lease.lost) == (0.0, False)
    for use in (lease.renew(), lock.release()):
        with pytest.raises(NotHeld):
            await use
    async with other.lock("a", timeout=5):
        with pytest.raises(NotHeld):
            lease.check()


@pytest.mark.parametrize("how", ["aclose", "release", "ashutdown", "task", "two"])
async def test_on_lost_may_close_its_client(world, caplog, monkeypatch, how):
    """The close does not wait for its caller, and does not cancel it."""
    monkeypatch.setattr(process_ports, "_ports", WeakValueDictionary())  # not those of other tests
    client, ended = world.client(), asyncio.Queue()

    async def on_lost(lease):
        if how == "ashutdown":
            await fencelock.ashutdown()
        elif how == "task":
            await asyncio.gather(client.aclose(release=True))
        else:
            await client.aclose(release=how == "release")
        ended.put_nowait(lease.name)

    names = ("a", "b") if how == "two" else ("a",)
    locks = [client.lock(name, ttl=6, on_lost=on_lost) for name in names]
    for lock in locks:
        await lock.acquire()
    other = world.client()
    for name in names:
        await other.revoke(name, reason="test")
    async with asyncio.timeout(4):
        assert sorted([await ended.get() for _ in names]) == sorted(names)
    assert "on_lost" not in caplog.text


@pytest.mark.slow
async def test_an_on_lost_that_outlasts_the_close_is_said_to_be_cancelled(world, caplog):
    client, began = world.client(), asyncio.Event()

    async def on_lost(_lease):
        began.set()
        await asyncio.Event().wait()

    lock = client.lock("a", ttl=6, on_lost=on_lost)
    await lock.acquire()
    lose(world, ms=20_000)
    await began.wait()
    await client.aclose()
    assert "an on_lost did not end while its client was closed" in caplog.text
