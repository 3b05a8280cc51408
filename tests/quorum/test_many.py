"""Many who wait."""

import pytest

pytestmark = pytest.mark.quorum


@pytest.mark.slow
async def test_twenty_wait_without_a_herd(world):
    """I5: two commands per node and turn, however many wait; nobody votes in vain."""
    clients = [world.client() for _ in range(20)]
    holder = world.client().lock("a", ttl=60)
    for client in (*clients, *clients):  # every client is at home before anything is counted
        async with client.lock("other"):
            pass
    turns: list[int] = []

    async def turn(client) -> None:
        async with client.lock("a", ttl=60, timeout=30) as lease:
            turns.append(lease.fence)

    await holder.acquire()
    jobs = [world.start(turn(client)) for client in clients]
    await world.in_line("a", 20)
    with world.commands() as sent:
        await holder.release()
        for job in jobs:
            await job.result(20)
    assert turns == sorted(set(turns))
    assert sent.scripts <= 20 * 2 * 5 + 40, sent.counts
