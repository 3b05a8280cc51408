"""Deadlocks: of each cycle the wait that began last is refused, and the others are granted."""

import contextlib
import time
from functools import partial

import pytest

from fencelock import AcquireTimeout, Deadlock, LeaseLost, NotAcquired, instrumentation
from tests.conformance.world import needs_no_server

SOON = 0.3  # a client hears what is meant for it once a lease has lasted for 0.2 s


async def in_circle(world, *pairs):
    """Take the locks of each pair one inside the other, in a unit each; return what was refused."""
    held, refused, done = [], [], []

    async def take(number, first, second):
        async with first:
            held.append(number)
            await world.until(lambda: len(held) == len(pairs))
            try:
                async with second:
                    done.append(number)
            except Deadlock as error:
                refused.append(error)

    jobs = [world.start(take(number, *pair)) for number, pair in enumerate(pairs)]
    for job in jobs:
        await job.result()
    assert len(done) + len(refused) == len(pairs)
    return refused


def locks(world, *names, **options):
    """Return a handle of each name, all by one client."""
    client = world.client(deadlock_after=SOON)
    return [client.lock(name, **options) for name in names]


async def test_one_of_two_clients_is_refused(world):
    error, *others = await in_circle(world, locks(world, "a", "b"), locks(world, "b", "a"))
    assert not others
    assert isinstance(error, NotAcquired)
    assert {step.name for step in error.cycle} == {"a", "b"}
    assert error.cycle[-1].fence
    assert all(f"waits for {step.name!r}" in str(error) for step in error.cycle)
    assert world.holder("a") is world.holder("b") is None
    assert world.waiting("a") == world.waiting("b") == 0


async def test_one_of_three_is_refused(world):
    circle = [locks(world, *pair) for pair in ("ab", "bc", "ca")]
    error, *others = await in_circle(world, *circle)
    assert not others
    assert [step.name for step in error.cycle] in (list("abc"), list("bca"), list("cab"))


def of_a_client(world, **options):
    a, b = locks(world, "a", "b", **options)
    return (a, b), (b, a)


def of_several_clients_each(world):
    (a,), (b,) = locks(world, "a"), locks(world, "b")
    return (a, b), (b, a)


def with_a_multi(world):
    client = world.client(deadlock_after=SOON)
    lock, both = client.lock("a"), client.multi(["b", "c"])
    return (both, lock), (lock, client.lock("b"))


def with_a(side, other, world):
    client = world.client(deadlock_after=SOON)
    rw, one = client.rwlock("rw"), client.semaphore("one", 1)
    return (getattr(rw, side), one), (one, getattr(rw, other))


CIRCLES = {
    "in turns": of_a_client,
    "in line": partial(of_a_client, cohort=None),
    "a timeout, which cannot help it": partial(of_a_client, timeout=60),
    "several clients": of_several_clients_each,
}
NO_QUORUM = {
    "a multi": with_a_multi,
    "a reader": partial(with_a, "read", "write"),
    "a writer": partial(with_a, "write", "read"),
}


@pytest.mark.parametrize(
    "made",
    [pytest.param(made, id=kind) for kind, made in CIRCLES.items()]
    + [pytest.param(NO_QUORUM[kind], marks=pytest.mark.no_quorum, id=kind) for kind in NO_QUORUM],
)
async def test_one_of_two_units_is_refused(world, made):
    assert len(await in_circle(world, *made(world))) == 1


async def acquired_in_circle(world, a, b):
    """Take the two locks without a body, in a unit each; return the units and their errors."""
    held, refused = [], []

    async def take(first, second):
        await first.acquire()
        held.append(first)
        await world.until(lambda: len(held) == 2)
        try:
            await second.acquire()
            await second.release()
        except Deadlock as error:
            refused.append(error)
        if first.lease is not None:
            await first.release()

    return [world.start(take(a, b)), world.start(take(b, a))], refused


async def test_reentrant_locks_that_no_body_holds_make_a_circle_too(world):
    """Only the thread or task that acquired can release them."""
    client = world.client(deadlock_after=SOON)
    units, refused = await acquired_in_circle(world, client.rlock("a"), client.rlock("b"))
    for unit in units:
        await unit.result()
    assert len(refused) == 1


async def test_locks_that_no_body_holds_are_reported_and_left_alone(world, caplog):
    """As found: the first hand-over of a lock that another unit releases was a Deadlock."""
    seen = []
    instrumentation.set_hooks([seen.append])
    try:
        a, b = locks(world, "a", "b")
        units, refused = await acquired_in_circle(world, a, b)
        await world.until(lambda: any(each.kind == "suspected_deadlock" for each in seen))
        await looked_in_vain(world, "a", "b")
        await a.release()  # by the test, which holds nothing
        for unit in units:
            await unit.result()
    finally:
        instrumentation.set_hooks([])
    assert refused == []
    assert "perhaps a deadlock" in caplog.text
    assert not [each for each in seen if each.kind == "deadlock"]
    for event in (each for each in seen if each.kind == "suspected_deadlock"):
        assert {step.name for step in event.error.cycle} == {"a", "b"}
        assert event.reason == "uncertain"


@pytest.mark.parametrize("timeout", [None, 60])
async def test_a_unit_that_waits_for_what_it_acquired_is_told(world, caplog, timeout):
    lock = world.client(deadlock_after=SOON).lock("a")

    async def again():
        await lock.acquire()
        assert await lock.acquire(timeout=timeout)
        await lock.release()

    unit = world.start(again())
    await world.until(lambda: "perhaps a deadlock" in caplog.text)
    await lock.release()  # by the test, which holds nothing
    await unit.result()


async def test_a_unit_may_enter_again_right_after_a_revocation(world):
    """As found: its client had not heard of it, and took the wait for one for itself."""
    client, operator = world.client(deadlock_after=60), world.client()
    lock = client.lock("a")
    with contextlib.suppress(LeaseLost):
        async with lock:
            await operator.revoke("a", reason="as the test asked")
            async with lock as again:
                again.check()


@pytest.mark.no_quorum  # it has no semaphores
async def test_what_is_no_certain_edge_is_left_to_end_by_itself(world):
    """A waiter for a permit waits for both holders, and one of them is in no cycle."""
    client = world.client(deadlock_after=SOON)
    lock, permits, other = client.lock("a"), client.semaphore("s", 2), client.semaphore("s", 2)
    await other.acquire()
    circle = world.start(in_circle(world, (permits, lock), (lock, permits)))
    await looked_in_vain(world, "s", "a")
    await other.release()
    assert await circle.result() == []


@pytest.mark.no_quorum  # it has no semaphores
async def test_a_permit_that_no_body_holds_is_no_edge(world):
    """Others often release it: that is what semaphores are for."""
    client = world.client(deadlock_after=SOON)
    one, other = client.semaphore("one", 1), client.semaphore("other", 1)

    async def take(first, second):
        await first.acquire()
        await world.until(lambda: world.holders("one") and world.holders("other"))
        await second.acquire()
        await second.release()

    jobs = [world.start(take(one, other)), world.start(take(other, one))]
    await looked_in_vain(world, "one", "other")
    await one.release()  # by the test, which acquired none
    await jobs[1].result()
    await other.release()
    await jobs[0].result()


async def looked_in_vain(world, *names):
    """Return when waits for these locks have had time to find a cycle, and wait still."""
    await world.until(lambda: all(world.waiting(name) == 1 for name in names))
    over = time.monotonic() + 2 * SOON
    await world.until(lambda: time.monotonic() > over)
    assert all(world.waiting(name) == 1 for name in names)


async def test_a_unit_that_waits_for_its_own_body_is_refused_at_once(world):
    (a,) = locks(world, "a")
    async with a:
        with pytest.raises(Deadlock) as refused:
            await a.acquire()
        assert not await a.acquire(timeout=0.02), "a timeout is waited for"
        assert world.waiting("a") == 0
    (step,) = refused.value.cycle
    assert step.name == "a"


ITSELF = {
    "another ttl, in no cohort with it": lambda of: (of.lock("a"), of.lock("a", ttl=20)),
    "a multi": lambda of: (of.lock("b"), of.multi(["a", "b", "c"])),
    "the last permit": lambda of: (of.semaphore("s", 1), of.semaphore("s", 1)),
}


@pytest.mark.no_quorum  # it has neither multis nor semaphores
@pytest.mark.parametrize("kind", ITSELF)
async def test_a_unit_that_waits_for_itself_otherwise_is_refused_at_once(world, kind):
    held, same = ITSELF[kind](world.client(deadlock_after=60))
    began = time.monotonic()
    async with held:
        with pytest.raises(Deadlock):
            await same.acquire()
    assert time.monotonic() < began + 10


async def test_a_unit_that_waits_for_itself_with_a_timeout_waits_for_that(world):
    """It holds up no other wait; and scripts that show what a timeout does go on working."""
    a, same = locks(world, "a", "a", timeout=0.05)
    async with a:
        with pytest.raises(AcquireTimeout):
            await same.__aenter__()


async def test_a_unit_that_waits_for_itself_by_another_client_is_found(world):
    (a,), (same,) = locks(world, "a"), locks(world, "a")
    async with a:
        with pytest.raises(Deadlock):
            await same.acquire()


async def test_a_handle_can_stay_out_of_it(world):
    """Its waits end by their timeouts, as before there was a search."""
    a, b = locks(world, "a", "b", deadlock_after=None, timeout=3 * SOON)
    ended = []

    async def take(first, second):
        async with first:
            await world.until(lambda: world.holder("a") and world.holder("b"))
            try:
                async with second:
                    pass
            except NotAcquired as error:
                ended.append(type(error))

    for job in [world.start(take(a, b)), world.start(take(b, a))]:
        await job.result()
    assert set(ended) == {AcquireTimeout}


@pytest.mark.parametrize("wrong", [0, -1, "1", True])
@needs_no_server
async def test_an_option_that_cannot_work_is_refused(world, wrong):
    with pytest.raises((TypeError, ValueError), match="deadlock_after"):
        world.client(deadlock_after=wrong)
    with pytest.raises((TypeError, ValueError), match="deadlock_after"):
        world.client().lock("a", deadlock_after=wrong)


async def test_it_is_reported_to_hooks(world):
    seen = []
    instrumentation.set_hooks([seen.append])
    try:
        (error,) = await in_circle(world, locks(world, "a", "b"), locks(world, "b", "a"))
    finally:
        instrumentation.set_hooks([])
    (event,) = [each for each in seen if each.kind == "deadlock"]
    assert event.error is error
    assert event.name == error.name
