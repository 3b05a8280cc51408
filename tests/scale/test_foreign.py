"""Very many locks held by other programs: looks cost a bounded share, and each lock is found."""

import pytest

from fencelock._core.deadlines import FOREIGN_SECONDS
from fencelock._runtime.clock import now
from tests.faults.conftest import load
from tests.faults.world import FACES, PREFIX, spawn, wait_until
from tests.servers import Server

COUNT = 150  # more than one look asks about


@pytest.fixture
def server():
    with Server() as server:
        load(server)
        yield server


def looks(server):
    """Return how many locks were looked at: each forgets old proofs of life, nothing else does."""
    return server.commandstats().get("zremrangebyscore", 0)


@pytest.mark.nightly
@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
def test_no_lock_is_looked_at_more_often_for_there_being_many(server, face):
    client = face(server.url)
    names = [f"lock-{number}" for number in range(COUNT)]
    for name in names:
        server.command("SET", PREFIX + name, "another", "PX", 60_000)
    try:
        locks = [client.lock(name, ttl=60) for name in names]
        turns = [spawn(lock.acquire, timeout=50) for lock in locks]
        wait_until(lambda: looks(server) > COUNT, 20, "each is in line and looks")
        before, begun = looks(server), now()
        wait_until(lambda: looks(server) > before + 20 * COUNT, 30, "looks")
        seen = looks(server) - before
        assert seen <= COUNT * ((now() - begun) / FOREIGN_SECONDS + 2)
        for name in names:
            server.command("DEL", PREFIX + name)
        assert all(turn.result(20) is True for turn in turns)
        for lock in locks:
            lock.release()
    finally:
        client.close()
