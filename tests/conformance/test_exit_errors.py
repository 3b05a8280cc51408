"""The end of a ``with`` gives back what its body held, and nothing of another thread or task."""

import pytest

from fencelock import NotHeld

KINDS = pytest.mark.parametrize(
    "kind",
    [
        "lock",
        pytest.param("semaphore", marks=pytest.mark.no_quorum),
        pytest.param("multi", marks=pytest.mark.no_quorum),
    ],
)


def made(client, kind):
    """Return a handle of a kind that any thread or task may release."""
    if kind == "semaphore":
        return client.semaphore("a", 1, ttl=60)
    return client.multi(["a", "b"], ttl=60) if kind == "multi" else client.lock("a", ttl=60)


@KINDS
async def test_the_end_of_a_body_frees_no_hold_of_another(world, kind):
    """The body released inside; meanwhile another thread or task acquired by the same handle."""
    handle = made(world.client(), kind)

    async def released_inside():
        async with handle:
            await handle.release()
            assert await world.start(handle.acquire()).result()

    with pytest.raises(NotHeld):
        await released_inside()
    assert await handle.owned() is True
    await handle.release()
    assert await handle.owned() is False


@KINDS
async def test_a_body_may_release_and_acquire_again(world, kind):
    """As with ``threading``: the end gives back what its own thread or task has by then."""
    handle = made(world.client(), kind)
    async with handle:
        await handle.release()
        assert await handle.acquire()
    assert await handle.owned() is False


@KINDS
async def test_a_body_may_end_in_another_thread_or_task(world, kind):
    """As fixtures of tests do; it means the same hold."""
    handle = made(world.client(), kind)
    await handle.__aenter__()
    await world.start(handle.__aexit__(None, None, None)).result()
    assert await handle.owned() is False
