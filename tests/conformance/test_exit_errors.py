"""The end of a ``with`` gives back what its body held, and nothing of another thread or task."""

import pytest

from fencelock import NotHeld
from tests.kinds import FREE_TO_ALL, MADE


@FREE_TO_ALL
async def test_the_end_of_a_body_frees_no_hold_of_another(world, kind):
    """The body released inside; meanwhile another thread or task acquired by the same handle."""
    handle = MADE[kind](world.client(), ttl=60)

    async def released_inside():
        async with handle:
            await handle.release()
            assert await world.start(handle.acquire()).result()

    with pytest.raises(NotHeld):
        await released_inside()
    assert await handle.owned() is True
    await handle.release()
    assert await handle.owned() is False


@FREE_TO_ALL
async def test_a_body_may_release_and_acquire_again(world, kind):
    """As with ``threading``: the end gives back what its own thread or task has by then."""
    handle = MADE[kind](world.client(), ttl=60)
    async with handle:
        await handle.release()
        assert await handle.acquire()
    assert await handle.owned() is False


@FREE_TO_ALL
async def test_a_body_may_end_in_another_thread_or_task(world, kind):
    """As fixtures of tests do; it means the same hold."""
    handle = MADE[kind](world.client(), ttl=60)
    await handle.__aenter__()
    await world.start(handle.__aexit__(None, None, None)).result()
    assert await handle.owned() is False
