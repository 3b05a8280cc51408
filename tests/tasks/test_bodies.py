"""The end of a body releases what its beginning acquired, in whichever task it comes."""

import asyncio
import contextlib

import pytest

from fencelock import LeaseLost, NotHeld

SHARED = {
    "semaphore": lambda client: client.semaphore("a", 5),
    "permits": lambda client: client.semaphore("a", 9).permits(2),
    "read": lambda client: client.rwlock("a").read,
    "multi": lambda client: client.multi([client.semaphore("a", 5)]),
}
ALONE = {
    "lock": lambda client: client.lock("a"),
    "write": lambda client: client.rwlock("a").write,
    "election": lambda client: client.election("a"),
}


async def dependency(handle):
    """Hold while it is suspended, as an async dependency or fixture."""
    async with handle as lease:
        yield lease


async def in_task(call):
    return await asyncio.create_task(call)


async def step(body, default):
    return await anext(body, default)


def fine(lease):
    return lease.remaining() > 0


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
async def test_an_async_generator_that_ends_elsewhere_releases_its_own(world, kind, order):
    handle = SHARED[kind](world.client())
    bodies = [dependency(handle) for _ in order]
    leases = [await in_task(step(body, "")) for body in bodies]
    for number in order:
        assert await in_task(step(bodies[number], "ended")) == "ended"
        bodies[number] = None
        assert [fine(lease) for lease in leases] == [body is not None for body in bodies]


@pytest.mark.parametrize("kind", ALONE)
async def test_the_end_of_a_lost_body_leaves_the_next_one_alone(world, kind):
    client = world.client()
    handle = ALONE[kind](client)
    first, second = dependency(handle), dependency(handle)
    lost = await in_task(step(first, ""))
    await client.revoke("a", reason="as the test asked")
    await world.until(lambda: lost.lost)
    lease = await in_task(step(second, ""))
    with pytest.raises(LeaseLost):
        await in_task(step(first, ""))
    assert fine(lease)
    assert await in_task(step(second, "ended")) == "ended"
    assert not fine(lease)


@pytest.mark.parametrize("kind", SHARED)
async def test_a_stack_releases_its_own_among_bodies_that_run(world, kind):
    handle = SHARED[kind](world.client())
    suspended = dependency(handle)
    async with contextlib.AsyncExitStack() as stack:
        entered = await stack.enter_async_context(handle)
        kept = await in_task(step(suspended, ""))
        await stack.aclose()
        assert [fine(entered), fine(kept)] == [False, True]
    await in_task(step(suspended, ""))
    assert not fine(kept)


@pytest.mark.parametrize("kind", SHARED)
async def test_an_end_that_may_be_of_several_bodies_is_an_error_and_releases_nothing(world, kind):
    handle = SHARED[kind](world.client())
    stacks = [contextlib.AsyncExitStack() for _ in range(2)]
    leases = [await in_task(stack.enter_async_context(handle)) for stack in stacks]
    with pytest.raises(NotHeld, match="several are open"):
        await in_task(stacks[0].aclose())
    assert all(map(fine, leases))
