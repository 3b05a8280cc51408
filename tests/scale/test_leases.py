"""Very many leases in one process: one thread or task keeps them all, and none is lost (I8).

What it costs is printed by tests/scale/measure.py; here is what must hold on any machine.
"""

import pytest

from tests.faults.conftest import load
from tests.scale.children import children, scripts_run
from tests.servers import Server

SIZES = [
    pytest.param(3_000, 6, id="3000"),
    pytest.param(30_000, 20, id="30000", marks=[pytest.mark.slow, pytest.mark.either_face]),
]
FACES = pytest.mark.parametrize("face", ["threads", "tasks"])
KEYS_PER_LEASE = 2  # the lock and its record; a renewal prolongs both


@pytest.fixture
def server():
    with Server() as server:
        load(server)
        yield server


@pytest.mark.one_face
@FACES
@pytest.mark.parametrize(("count", "ttl"), SIZES)
def test_one_thread_or_task_renews_them_all(server, face, count, ttl):
    with children(("keeper", face, server.url, count, ttl)) as [keeper]:
        assert keeper.ask("hold")["held"] == count
        server.command("CONFIG", "RESETSTAT")
        told = keeper.ask("renewed 2")
        renewed = server.commandstats()["pexpire"] / KEYS_PER_LEASE
        assert renewed >= 2 * count
        assert renewed / scripts_run(server) >= 100
        assert (told["lost"], told["told"]) == (0, 0)
        assert server.command("DBSIZE") == KEYS_PER_LEASE * count
        ours = [name for name in told["threads"] if name.startswith("fencelock")]
        assert ours == (["fencelock-leases"] if face == "threads" else [])
        assert len(told.get("tasks", ())) <= 1


@pytest.mark.one_face
@FACES
def test_each_of_very_many_losses_is_told(server, face):
    with children(("keeper", face, server.url, 3_000, 3)) as [keeper]:
        keeper.ask("hold")
        server.flushall()
        told = keeper.ask("lose")
        assert (told["lost"], told["told"]) == (3_000, 3_000)


@pytest.mark.one_face
@FACES
def test_closing_tells_all_and_asks_nothing(server, face):
    with children(("keeper", face, server.url, 3_000, 600)) as [keeper]:
        keeper.ask("hold")
        keeper.ask("close")
        assert keeper.ask("lose")["told"] == 3_000
        assert server.command("DBSIZE") == KEYS_PER_LEASE * 3_000, "who holds keeps its lease"


@FACES
def test_very_many_leases_are_given_back(server, face):
    with children(("keeper", face, server.url, 3_000, 600)) as [keeper]:
        keeper.ask("hold")
        keeper.ask("give")
        locks = [key for key in server.command("KEYS", "*") if not key.endswith("~record")]
        assert locks == []
        assert keeper.ask("report")["told"] == 0
