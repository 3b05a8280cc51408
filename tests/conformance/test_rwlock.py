"""Reader/writer locks: who is excluded, who goes first, and what ends alone (I1, I5)."""

import pytest

from fencelock import LeaseLost, NotAcquired, NotHeld
from fencelock._core.deadlines import validity
from tests.conformance.world import needs_no_server

pytestmark = pytest.mark.no_quorum  # a quorum has none: see options.py


class Visit:
    """A stay on one side in a thread or task of its own, which ends when it is told to."""

    def __init__(self, world, side):
        self.fence = None
        self._leaving = False
        self.job = world.start(self._stay(world, side))

    async def _stay(self, world, side):
        async with side as lease:
            self.fence = lease.fence
            await world.until(lambda: self._leaving, "told to leave")

    async def granted(self, world):
        await world.until(lambda: self.fence is not None, "granted")

    async def leave(self):
        self._leaving = True
        await self.job.result()


async def test_many_read_or_one_writes(world):
    """Read is refused while a writer holds, write while anyone does."""
    one, two = world.client().rwlock("a"), world.client().rwlock("a")
    async with one.read, two.read:
        assert world.holders("a") == 2
        three = world.client().rwlock("a")
        assert await three.write.acquire(blocking=False) is False
        assert (await three.read.locked(), await three.write.locked()) == (False, True)
    async with one.write:
        assert await two.read.acquire(blocking=False) is False
        assert await two.write.acquire(blocking=False) is False
        assert await two.read.locked() is True
    assert await two.write.locked() is False


async def test_each_side_has_a_ttl_of_its_own(world):
    """A side ends on the server's clock."""
    lock = world.client().rwlock("a", read_ttl=10, write_ttl=30)
    async with lock.read as lease:
        assert 0 < lease.remaining() <= validity(10)
        assert 0 < world.pttl("a") <= 10_000
    async with lock.write as lease:
        assert validity(10) < lease.remaining() <= validity(30)
        assert 10_000 < world.pttl("a") <= 30_000


async def test_one_readers_end_is_only_its_own(world):
    """Neither a release nor an expiry ends or prolongs another reader's lease."""
    short = world.client().rwlock("a", read_ttl=0.3, renew=False)
    long = world.client().rwlock("a", read_ttl=60, renew=False)
    other = world.client().rwlock("a", read_ttl=60, renew=False)
    for each in (short, long, other):
        await each.read.acquire()
    await other.read.release()
    await world.until(lambda: world.holders("a") == 1, "the short lease ended")
    long.read.lease.check()
    with pytest.raises(LeaseLost):
        await short.read.release()
    assert world.holders("a") == 1
    await long.read.release()


async def test_a_writer_gets_in_when_the_readers_leases_ended(world):
    """Dead readers, one after the other: the writer waits for the last lease, and no longer."""
    readers = [world.client().rwlock("a", read_ttl=ttl, renew=False) for ttl in (0.2, 0.5)]
    for each in readers:
        await each.read.acquire()
    writer = world.client().rwlock("a")
    assert await writer.write.acquire(timeout=3) is True
    for each in readers:
        with pytest.raises(LeaseLost):
            await each.read.release()
    await writer.write.release()


@pytest.mark.one_server  # counts commands: in a Cluster who waited long asks again
async def test_a_writers_release_grants_all_readers_at_the_head(world):
    """I5: together and at once, up to the next writer; fences in the order of the line."""
    holder = world.client().rwlock("a")
    await holder.write.acquire()
    inside, peak, fences = set(), [], []

    async def read(number: int) -> None:
        async with world.client().rwlock("a").read as lease:
            fences.append((number, lease.fence))
            inside.add(number)
            peak.append(len(inside))
            await world.until(lambda: len(fences) >= 3, "all three readers are in")
            inside.discard(number)

    jobs = []
    for number in range(3):
        jobs.append(world.start(read(number)))
        await world.in_line("a", number + 1)
    last = Visit(world, world.client().rwlock("a").write)
    await world.in_line("a", 4)
    with world.commands() as sent:
        await holder.write.release()
        await world.until(lambda: len(fences) == 3, "granted by that one release")
        assert world.waiting("a") == 1 or not inside
    for job in jobs:
        await job.result()
    await last.granted(world)
    assert max(peak) == 3
    assert [number for number, _ in sorted(fences, key=lambda each: each[1])] == [0, 1, 2]
    assert last.fence > max(fence for _, fence in fences)
    assert sent.scripts <= 1 + 3 + 2, sent.counts
    await last.leave()


async def test_a_stream_of_readers_does_not_starve_a_writer(world):
    """Who comes after the writer waits behind it."""
    reader, writer, late = (world.client().rwlock("a") for _ in range(3))
    await reader.read.acquire()
    writes = Visit(world, writer.write)
    await world.in_line("a", 1)
    reads = Visit(world, late.read)
    await world.in_line("a", 2)
    assert await world.client().rwlock("a").read.acquire(blocking=False) is False
    await reader.read.release()
    await writes.granted(world)
    assert world.waiting("a") == 1
    await writes.leave()
    await reads.granted(world)
    await reads.leave()


async def test_reading_again_sends_nothing(world):
    """It waits for nobody, though a writer stands in line."""
    lock, other = world.client().rwlock("a"), world.client().rwlock("a")
    async with lock.read as lease:
        writes = Visit(world, other.write)
        await world.in_line("a", 1)
        with world.commands() as sent:
            async with lock.read as again:
                assert again.fence == lease.fence
        assert world.holders("a") == 1
    await writes.granted(world)
    await writes.leave()
    assert sent.scripts == 0


async def test_reading_by_another_handle_of_the_client_does_not_wait_for_itself(world):
    """A writer stands between: the second handle is granted beside the first."""
    client = world.client()
    one, two, other = client.rwlock("a"), client.rwlock("a"), world.client().rwlock("a")
    await one.read.acquire()
    writes = Visit(world, other.write)
    await world.in_line("a", 1)
    assert await two.read.acquire(timeout=3) is True
    assert world.holders("a") == 2
    assert two.read.lease.fence > one.read.lease.fence
    await one.read.release()
    assert writes.fence is None
    await two.read.release()
    await writes.granted(world)
    await writes.leave()


async def test_writing_again_is_refused_but_on_request(world):
    """By any handle of the client, and never by waiting for oneself."""
    client = world.client()
    lock, same = client.rwlock("a"), client.rwlock("a")
    async with lock.write as lease:
        for each in (lock, same):
            with pytest.raises(NotAcquired, match="already holds the write side"):
                await each.write.acquire(timeout=1)
        lease.check()
    again = client.rwlock("a", reentrant=True)
    async with again.write as lease:
        with world.commands() as sent:
            async with again.write as inner:
                assert inner.fence == lease.fence
        assert sent.scripts == 0
        assert await client.rwlock("b").write.locked() is False
        async with client.rwlock("a", reentrant=True).write as beside:
            assert beside.fence > lease.fence
        assert world.holders("a") == 1


async def test_a_reader_that_asks_to_write_is_refused(world):
    """It would wait for itself: an error at once, by any handle of the client."""
    client = world.client()
    lock, same = client.rwlock("a"), client.rwlock("a", reentrant=True)
    async with lock.read as lease:
        for each in (lock, same):
            with pytest.raises(NotAcquired, match="would wait for itself"):
                await each.write.acquire()
        lease.check()
        assert world.waiting("a") == 0
    async with lock.write:
        pass


async def test_a_downgrade_leaves_no_gap(world):
    """A writer takes the read side whoever waits, and readers join when it stops writing."""
    lock, writer, reader = (world.client().rwlock("a") for _ in range(3))
    await lock.write.acquire()
    reads = Visit(world, reader.read)
    await world.in_line("a", 1)
    writes = Visit(world, writer.write)
    await world.in_line("a", 2)
    with world.commands() as sent:
        assert await lock.read.acquire() is True
    assert sent.scripts == 1
    await lock.write.release()
    await reads.granted(world)
    assert writes.fence is None
    assert lock.read.lease.fence < reads.fence
    await lock.read.release()
    await reads.leave()
    await writes.granted(world)
    await writes.leave()


async def test_who_lost_the_write_side_does_not_get_the_read_side(world):
    """Not even for a moment: somebody else writes by now."""
    lock = world.client().rwlock("a", write_ttl=0.5, renew=False)
    other = world.client().rwlock("a")
    await lock.write.acquire()
    assert await other.write.acquire(timeout=3) is True
    with pytest.raises(LeaseLost):
        async with lock.write:
            pass
    assert await lock.read.acquire(timeout=0.05) is False
    with pytest.raises(LeaseLost):
        await lock.write.release()
    await other.write.release()


async def test_only_who_entered_may_leave(world):
    """The thread or task owns."""
    lock = world.client().rwlock("a")
    await lock.read.acquire()

    async def leave() -> None:
        await lock.read.release()

    with pytest.raises(NotHeld):
        await world.start(leave()).result()
    with pytest.raises(NotHeld):
        await lock.write.release()
    assert await lock.read.release() == 0


@needs_no_server
async def test_arguments_that_cannot_be(world):
    """Refused before anything is sent; each says which."""
    client = world.client()
    with pytest.raises(ValueError, match="read_ttl"):
        client.rwlock("a", read_ttl=0)
    with pytest.raises(ValueError, match="write_ttl"):
        client.rwlock("a", write_ttl=float("nan"))
    with pytest.raises(ValueError, match="name"):
        client.rwlock("")
