"""The end of a body releases what its beginning acquired, in whichever task it comes."""

import asyncio
import contextlib

import pytest

from fencelock import NotHeld
from tests.kinds import SHARED


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


@pytest.mark.parametrize("kind", SHARED)
async def test_an_end_that_may_be_of_several_bodies_is_an_error_and_releases_nothing(world, kind):
    handle = SHARED[kind](world.client())
    stacks = [contextlib.AsyncExitStack() for _ in range(2)]
    leases = [await in_task(stack.enter_async_context(handle)) for stack in stacks]
    with pytest.raises(NotHeld, match="several are open"):
        await in_task(stacks[0].aclose())
    assert all(map(fine, leases))
