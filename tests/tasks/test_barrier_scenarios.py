"""What CPython tests of ``asyncio.Barrier``, with real waiting in place of counted loop ticks."""

import asyncio
import random

import pytest

from fencelock import BarrierBroken
from tests.tasks.world import cut

N = 5
# A case of test_asyncio.test_locks → where it is, or why it is left out.
CASES = {
    "test_barrier": "left out: what cannot be awaited is Python's matter",
    "test_repr": "test_repr_tells_what_was_seen_last",
    "test_barrier_parties": "left out: tests/conformance/test_barrier.py has it for both faces",
    "test_context_manager": "test_context_manager",
    "test_filling_one_task": "test_one_party_alone",
    "test_filling_one_task_twice": "test_one_party_alone",
    "test_filling_task_by_task": "test_filling_task_by_task",
    "test_filling_tasks_wait_twice": "test_waiting_twice",
    "test_filling_tasks_check_return_value": "test_waiting_twice",
    "test_draining_state": "left out: who has passed is gone at once, nothing drains",
    "test_blocking_tasks_while_draining": "test_some_come_again_at_once",
    "test_filling_tasks_cancel_one": "test_one_is_cancelled",
    "test_reset_barrier": "test_reset_with_nobody_waiting",
    "test_reset_barrier_while_tasks_waiting": "test_reset_while_tasks_wait",
    "test_reset_barrier_when_tasks_half_draining": "left out: nothing drains",
    "test_reset_barrier_when_tasks_half_draining_half_blocking": "left out: nothing drains",
    "test_reset_barrier_while_tasks_waiting_and_waiting_again": "test_reset_and_waiting_again",
    "test_reset_barrier_while_tasks_draining": "left out: nothing drains",
    "test_abort_barrier": "test_abort_with_nobody_waiting",
    "test_abort_barrier_when_tasks_half_draining_half_blocking": "left out: nothing drains",
    "test_abort_barrier_when_exception": "test_abort_when_a_party_fails",
    "test_abort_barrier_when_exception_then_resetting": "test_abort_when_a_party_fails_then_reset",
}
ROUNDS = 60


def test_every_case_of_theirs_is_here_or_left_out_with_a_reason():
    for case in CASES.values():
        assert case in globals() or case.startswith("left out: "), case


async def gathered(number, work):
    return await asyncio.gather(*(work() for _ in range(number)))


async def come(world, barrier, number):
    tasks = [asyncio.create_task(barrier.wait()) for _ in range(number)]
    await waiting(world, number)
    return tasks


def came(world):
    return int(world.server.command("HGET", world.prefix + "a", "count") or 0)


async def waiting(world, number):
    await world.until(lambda: came(world) == number, f"{number} wait")


async def at_rest(barrier):
    assert await barrier.n_waiting == 0
    assert await barrier.broken is False


async def test_repr_tells_what_was_seen_last(world):
    barrier = world.client().barrier("a", N)
    assert f"waiters=0/{N}" in repr(barrier)
    tasks = await come(world, barrier, 2)
    await barrier.n_waiting
    assert f"waiters=2/{N}" in repr(barrier)
    await barrier.abort()
    assert repr(barrier).endswith("broken>")
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_context_manager(world):
    barrier, results = world.client().barrier("a", 3), []

    async def enter():
        async with barrier as index:
            results.append(index)

    await gathered(3, enter)
    assert sorted(results) == [0, 1, 2]
    await at_rest(barrier)


async def test_one_party_alone(world):
    barrier = world.client().barrier("a", 1)
    assert await asyncio.gather(barrier.wait(), barrier.wait()) == [0, 0]
    await at_rest(barrier)


async def test_filling_task_by_task(world):
    barrier = world.client().barrier("a", 3)
    tasks = []
    for number in (1, 2):
        tasks.append(asyncio.create_task(barrier.wait()))
        await waiting(world, number)
        assert await barrier.n_waiting == number
    tasks.append(asyncio.create_task(barrier.wait()))
    assert await asyncio.gather(*tasks) == [0, 1, 2]
    await at_rest(barrier)


async def test_waiting_twice(world):
    barrier, results = world.client().barrier("a", N), []

    async def enter():
        async with barrier:
            results.append(1)
            async with barrier as index:
                results.append(2)
                return index

    assert sorted(await gathered(N, enter)) == list(range(N))
    assert sorted(results) == [1] * N + [2] * N
    assert results[:N] == [1] * N
    await at_rest(barrier)


async def test_some_come_again_at_once(world):
    client, again = world.client(), 2
    barrier, others = client.barrier("a", N), client.barrier("b", N - again)
    left = [again]

    async def enter():
        await barrier.wait()
        if left[0] > 0:
            left[0] -= 1
            await barrier.wait()
        else:
            await others.wait()
            await barrier.wait()

    await gathered(N, enter)
    await at_rest(barrier)


async def test_one_is_cancelled(world):
    barrier = world.client().barrier("a", 3)
    first, second = await come(world, barrier, 2)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await waiting(world, 1)
    third = asyncio.create_task(barrier.wait())
    await waiting(world, 2)
    fourth = asyncio.create_task(barrier.wait())
    assert sorted(await asyncio.gather(second, third, fourth)) == [0, 1, 2]
    await at_rest(barrier)


async def test_reset_with_nobody_waiting(world):
    barrier = world.client().barrier("a", 1)
    await barrier.reset()
    await at_rest(barrier)


async def test_reset_while_tasks_wait(world):
    barrier = world.client().barrier("a", N)
    tasks = await come(world, barrier, N - 1)
    await barrier.reset()
    for task in tasks:
        with pytest.raises(asyncio.BrokenBarrierError):
            await task
    await at_rest(barrier)


async def test_reset_and_waiting_again(world):
    barrier, broke, passed = world.client().barrier("a", N), [], []

    async def stubborn():
        try:
            await barrier.wait()
        except asyncio.BrokenBarrierError:
            broke.append(True)
        passed.append(await barrier.wait())

    tasks = [asyncio.create_task(stubborn()) for _ in range(N - 1)]
    await waiting(world, N - 1)
    await barrier.reset()
    await barrier.wait()
    await asyncio.gather(*tasks)
    assert len(broke) == N - 1
    assert len(passed) == N - 1
    await at_rest(barrier)


async def test_abort_with_nobody_waiting(world):
    barrier = world.client().barrier("a", 1)
    await barrier.abort()
    assert await barrier.n_waiting == 0
    assert await barrier.broken is True


async def test_abort_when_a_party_fails(world):
    barrier, passed, broke = world.client().barrier("a", N), [], []

    async def enter():
        try:
            async with barrier as index:
                if index == N // 2:
                    raise ZeroDivisionError
            async with barrier:
                passed.append(True)
        except asyncio.BrokenBarrierError:
            broke.append(True)
        except ZeroDivisionError:
            await barrier.abort()

    await gathered(N, enter)
    assert await barrier.broken is True
    assert (passed, len(broke)) == ([], N - 1)


async def test_abort_when_a_party_fails_then_reset(world):
    client, broke, passed = world.client(), [], []
    barrier, beside = client.barrier("a", N), client.barrier("b", N)

    async def enter():
        try:
            if await barrier.wait() == N // 2:
                raise ZeroDivisionError
            await barrier.wait()
        except asyncio.BrokenBarrierError:
            broke.append(True)
        except ZeroDivisionError:
            await barrier.abort()
        if await beside.wait() == N // 2:
            await barrier.reset()
        await beside.wait()
        await barrier.wait()
        passed.append(True)

    await gathered(N, enter)
    assert (len(broke), len(passed)) == (N - 1, N)
    await at_rest(barrier)


async def test_an_action_may_be_a_coroutine_function(world):
    ran = []

    async def action():
        await asyncio.sleep(0)
        ran.append(True)

    barrier = world.client().barrier("a", 3, action)
    assert sorted(await gathered(3, barrier.wait)) == [0, 1, 2]
    assert ran == [True]


async def test_a_wait_cancelled_at_any_await(world):
    """I9: whenever it strikes, the place is free again, or the party has passed."""
    client, other, chance = world.client(), world.client(), random.Random(23)
    for _ in range(ROUNDS):
        victim, follower = client.barrier("a", 2), other.barrier("a", 2)
        beside = asyncio.create_task(follower.wait())
        cancelled, _ = await cut(victim.wait(), chance.choice([1, 2]), chance.choice([0.0, 0.0003]))
        await victim.n_waiting  # behind all that the victim sent
        await world.until(lambda beside=beside: beside.done() or came(world) == 1)
        if cancelled and came(world):
            assert await follower.wait() in {0, 1}
        assert await asyncio.wait_for(beside, 5) in {0, 1}
        await waiting(world, 0)
    with pytest.raises(BarrierBroken):
        await client.barrier("a", 2).wait(0.01)
