"""Any name, any ttl that can be; the others are refused before anything is sent."""

import contextlib
from datetime import timedelta

import pytest

from fencelock import LeaseLost, OutcomeUnknown, Poll
from tests.conformance.world import World, cluster_node, needs_no_server

NAMES = {
    "braces": "order:{42}:x",
    "nothing in braces": "{}",
    "nothing, then something": "{}{a}",
    "closing first": "}x",
    "opening only": "a{b",
    "closing only": "a}b{",
    "nested": "{{a}}",
    "spaces": "a b  c ",
    "newlines": "a\nb\r\nc",
    "nul": "a\0b",
    "unicode": "Schloß 鍵 🔒",
    "a glob": "*?[a-z]\\",
    "512 bytes": "x" * 512,
    "the longest": "é" * 512,
    "like a key of ours, nearly": "a~queue ",
    "a colon": ":",
}
REFUSED = {
    "empty": "",
    "too long": "x" * 1025,
    "too long in UTF-8": "é" * 513,
    "a lone surrogate": "\ud800",
    "ends like a derived key": "a~record",
    "ends like another": "a~queue=",
    "and another": "a~holds#",
    "bytes": b"a",
    "None": None,
    "a number": 7,
}
BAD_TTLS = [0, -1, 0.001, float("nan"), float("inf"), -float("inf"), True, "30", b"1", 1e30, 2**63]
BAD_TTLS += [timedelta(0), timedelta(seconds=-5), timedelta(days=99_999), None.__class__, 1j]


async def whole_life(world: World, name: str) -> None:
    """Take, wait for, hand over, renew, look at and release a lock of this name."""
    client = world.client()
    first, second = client.lock(name, ttl=9), world.client().lock(name, ttl=9)
    await first.acquire()
    assert world.holder(name) == first.lease.holder
    job = world.start(second.acquire())
    await world.in_line(name, 1)
    await first.lease.renew()
    await first.release()
    assert await job.result() is True
    assert await second.owned()
    assert second.name == name
    await second.release()
    assert await client.lock(name).locked() is False
    owner = client.rlock(name, owner=f"owner {name[:200]}")
    async with owner, owner:
        assert await owner.owned()
    async with client.lock(name, wait=Poll()):
        pass
    assert world.holder(name) is None


@pytest.mark.no_quorum  # explicit owners are one server's
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_any_name_works(world, name):
    """Braces, blanks, newlines, whatever: a name is 1 to 1,024 bytes."""
    await whole_life(world, name)
    record = world.keys(name).grant[1]
    assert world.server.command("EXISTS", record) == 1


@pytest.mark.one_server
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_all_keys_of_a_lock_share_one_slot(world, name):
    """In a Cluster too, for any name: the server's own CLUSTER KEYSLOT says so, and lets it run."""
    world.server = cluster_node(world.server.binary)
    keys = world.keys(name).all
    assert len({world.server.command("CLUSTER", "KEYSLOT", key) for key in keys}) == 1, keys
    assert len(set(keys)) == 6
    await whole_life(world, name)


@pytest.mark.slow
async def test_names_do_not_meet(world):
    """Locks whose names resemble each other are different locks."""
    client = world.client()
    locks = [client.lock(name) for name in NAMES.values()]
    for lock in locks:
        assert await lock.acquire(blocking=False), lock.name
    keys = [key for name in NAMES.values() for key in world.keys(name).all]
    assert len(set(keys)) == len(keys)
    for lock in locks:
        await lock.release()


@needs_no_server
@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED)
async def test_a_name_that_cannot_be_is_refused(world, name):
    """A TypeError or ValueError that names the trouble; nothing is sent."""
    client = world.client()
    with world.commands() as sent:
        for make in (client.lock, client.rlock):
            with pytest.raises((TypeError, ValueError), match="name"):
                make(name)
    assert sent.counts == {}


@needs_no_server
@pytest.mark.parametrize("ttl", BAD_TTLS, ids=repr)
async def test_a_ttl_that_cannot_be_is_refused(world, ttl):
    """Zero would delete the lock, a huge one would overflow: nothing of it is sent."""
    with world.commands() as sent:
        client = world.client()
        for make in (client.lock, client.rlock):
            with pytest.raises((TypeError, ValueError), match="ttl"):
                make("a", ttl=ttl)
        with pytest.raises((TypeError, ValueError), match="ttl"):
            world.client(ttl=ttl)
    assert sent.counts == {}


@needs_no_server
async def test_other_options_that_cannot_be_are_refused(world):
    """Each names itself; nothing is sent."""
    bad = {
        "max_hold": [0, -1, float("nan"), True, "x"],
        "max_renewals": [-1, 1.5, True, "x"],
        "timeout": [-5, float("nan"), True, "x", 1e100],
        "wait": [None, "queue", Poll],
        "on_lost": [7, "stop"],
        "label": ["", 7],
    }
    with world.commands() as sent:
        client = world.client()
        for option, values in bad.items():
            for value in values:
                with pytest.raises((TypeError, ValueError, OverflowError)):
                    client.lock("a", **{option: value})
        for owner in ("", 7, "x" * 1025):
            with pytest.raises((TypeError, ValueError), match="owner"):
                client.rlock("a", owner=owner)
        for timeout in (-5, float("nan"), 1e100, "x"):
            with pytest.raises((TypeError, ValueError, OverflowError)):
                await client.lock("a").acquire(timeout=timeout)
        with pytest.raises(ValueError, match="timeout"):
            await client.lock("a").acquire(False, 1)
    assert sent.counts == {}


@pytest.mark.no_quorum  # explicit owners are one server's
async def test_no_key_ever_lacks_an_expiry(world):
    """I10: seen all the time while everything that fencelock does goes on."""
    clients = [world.client(), world.client()]

    async def work(number: int) -> None:
        client = clients[number % 2]
        for turn in range(5):
            async with client.lock("a", ttl=5):
                await world.tick()
            owner = client.rlock("b", owner=f"{number}", ttl=5)
            async with owner, owner:
                await world.tick()
            short = client.lock("a", ttl=0.3, renew=False)
            with contextlib.suppress(OutcomeUnknown):  # no answer so soon, on a busy machine
                if await short.acquire(timeout=0.001 * turn):
                    await world.until(lambda lease=short.lease: lease.lost)
                    with pytest.raises(LeaseLost):
                        await short.release()
            async with client.lock("c", wait=Poll(interval=0.005)):
                pass

    jobs = [world.start(work(number)) for number in range(4)]
    while not all(job.done for job in jobs):
        world.check_keys()
        await world.tick()
    for job in jobs:
        await job.result()
    world.check_keys()
