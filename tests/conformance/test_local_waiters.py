"""Who waits for another thread or task of its own client is shown, too, by that client's answer."""

import time

import pytest

from fencelock import Cohort
from fencelock._core.look import clients
from fencelock._core.look.graph import blocks, cycles
from fencelock._core.look.overview import Overview

SOON = 0.3  # a client hears what is meant for it once a lease has lasted for 0.2 s


async def holding(world, lock, *others):
    """Have units of one client wait for a lock that another unit of it holds; return what ends it.

    ``others`` are taken by those that wait, one each, before they wait.
    """
    release, taken, units = [], [], []

    async def hold():
        async with lock:
            taken.append(None)
            await world.until(lambda: release)

    async def wait(first):
        async with first:
            taken.append(None)
            async with lock:
                pass

    units.append(world.start(hold()))
    await world.until(lambda: taken)
    for number, other in enumerate(others, 2):
        units.append(world.start(wait(other)))
        await world.until(lambda number=number: len(taken) == number)

    async def end():
        release.append(None)
        for unit in units:
            await unit.result()

    return end


async def seen(look, number):
    """Return what a look shows once it shows a holder and so many local waiters."""
    over = time.monotonic() + 8
    while not (shown := await look()).held or len(shown.local_waiters) != number:
        assert time.monotonic() < over
    return shown


@pytest.mark.no_quorum  # its waiters all stand in a line of the server's
async def test_a_client_sees_who_waits_inside_itself(world):
    client = world.client()
    end = await holding(world, client.lock("a"), client.lock("b"))
    shown = await seen(lambda: client.status("a"), 1)
    assert shown.local_waiters[0].unit != shown.holder.unit
    assert [each.waiter.unit for each in blocks([shown])] == [shown.local_waiters[0].unit]
    await end()


@pytest.mark.no_quorum  # as above
async def test_another_client_sees_who_waits_inside_one(world):
    client, other = world.client(), world.client()
    end = await holding(world, client.lock("a"), client.lock("b"), client.lock("c"))
    shown = await seen(lambda: other.status("a"), 2)
    assert shown.waiting == 0
    assert [each.place for each in shown.local_waiters] == [0, 0]
    assert {each.process for each in shown.local_waiters} == {shown.holder.process}
    units = {each.unit for each in (shown.holder, *shown.local_waiters)}
    assert len(units) == 3
    assert all(0 <= each.waited < 60 for each in shown.local_waiters)
    found = blocks(await other.locks())
    assert {(each.waiter.unit, each.name) for each in found} == {
        (each.unit, "a") for each in shown.local_waiters
    }
    assert cycles(found) == []
    await end()


@pytest.mark.slow
@pytest.mark.no_quorum  # as above
async def test_how_many_wait_in_a_client_that_holds_nothing_is_told_by_its_heartbeats(world):
    """It hears no question: with threads only clients that hold do."""
    client, other = world.client(), world.client()

    async def wait():
        async with client.lock("a"):
            pass

    async with other.lock("a"):
        waiting = [world.start(wait()) for _ in range(3)]
        over = time.monotonic() + 8
        while (shown := await other.status("a")).waiting_units != len(waiting):
            assert time.monotonic() < over, shown.waiting_units
        assert shown.waiting == 1
    for each in waiting:
        await each.result()
    assert (await other.status("a")).waiting_units == 0


@pytest.mark.no_quorum  # as above
async def test_the_turn_of_a_client_is_known_by_who_has_it(world):
    """The server knows only who asked it, which had the first turn."""
    client, other = world.client(cohort=Cohort(turns=8, seconds=60)), world.client()
    stage = []

    async def take(number):
        async with client.lock("a"):
            await world.until(lambda: len(stage) > number)

    units = []
    for number in range(3):
        units.append(world.start(take(number)))
        shown = await seen(lambda: other.status("a"), number)
    first, second = shown.holder.unit, shown.local_waiters[0].unit
    stage.append(None)
    shown = await seen(lambda: other.status("a"), 1)
    assert shown.holder.unit == second != first
    assert shown.holder.held_for < shown.local_waiters[0].waited
    stage += [None, None]
    for unit in units:
        await unit.result()


async def test_nobody_is_asked_for_a_look_without_waiters(world):
    client, other = world.client(), world.client()
    async with client.lock("a"):
        await other.status("a")
        with world.commands() as sent:
            await other.status("a", waiters=0)
    assert sent["publish"] == 0


@pytest.mark.one_server
async def test_a_look_that_is_repeated_asks_some_clients_and_knows_what_the_others_said(
    world, monkeypatch
):
    other, overview = world.client(), Overview()
    ends = []
    for name in "abc":
        client = world.client()
        ends.append(await holding(world, client.lock(name), client.lock(f"first {name}")))

    async def looks():
        found = {each.name: each for each in await world.refreshed(other, overview)}
        return [found[name] for name in "abc"]

    over = time.monotonic() + 8
    while [each.waiting_units for each in await looks()] != [1, 1, 1]:
        assert time.monotonic() < over
    monkeypatch.setattr(clients, "ASKED_MAX", 2)
    before = await looks()
    with world.commands() as sent:
        after = await looks()
    assert sent["publish"] == 4, "two questions and two answers"
    assert [each.waiting_units for each in after] == [1, 1, 1]
    assert all(old.longest_wait < new.longest_wait for old, new in zip(before, after, strict=True))
    for end in ends:
        await end()


@pytest.mark.no_quorum  # as above
async def test_those_that_an_answer_has_no_room_for_are_counted(world):
    client, other = world.client(), world.client()
    lock = client.lock("a")

    async def wait():
        async with lock:
            pass

    async with lock:
        waiting = [world.start(wait()) for _ in range(150)]
        over = time.monotonic() + 8
        while (shown := await other.status("a")).waiting_units != len(waiting):
            assert time.monotonic() < over, shown.waiting_units
        assert len(shown.local_waiters) < len(waiting)
        [listed] = await other.locks()
        assert listed.waiting_units == len(waiting)
        assert (listed.waiting, listed.holding) == (0, 1), "places and clients"
    for each in waiting:
        await each.result()
