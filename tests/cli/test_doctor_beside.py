"""``fencelock doctor`` and what stands beside a server: Sentinels, a Cluster; and clocks."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from fencelock._runtime.log import log
from fencelock.cli.doctor import server as asked
from fencelock.cli.doctor.health import jump, jumps, version
from fencelock.cli.session import Session
from tests.cli.shell import eventually
from tests.cli.test_doctor import checks, found, replica_of, url_of  # noqa: F401 - a fixture
from tests.faults.wall_clock import clocked  # noqa: F401 - pytest finds the fixture here
from tests.servers import Server, binaries
from tests.topologies.sentinel import SentinelServer

# --- Sentinel -------------------------------------------------------------------------------------


class Sentinel(SentinelServer):
    """A Sentinel that watches a master by the name ``locks``."""

    def __init__(self, master, quorum):
        watched = f"sentinel monitor locks 127.0.0.1 {master.port} {quorum}\n"
        soon = "sentinel down-after-milliseconds locks 200\n"
        super().__init__(master.binary, config=watched + soon)

    def tells(self, **facts):
        reply = self.command("SENTINEL", "MASTER", "locks")
        told = dict(zip(reply[::2], reply[1::2], strict=True))
        return all(told[name.replace("_", "-")] == value for name, value in facts.items())


@pytest.mark.parametrize("binary", binaries(), ids=str)
def test_a_sentinel_and_the_master_that_it_watches(shell, binary):
    with Server(binary) as master, Sentinel(master, 1) as sentinel:
        url = ("--url", sentinel.url)
        level, told, change = found(shell, "role", *url)
        assert (level, "watches locks" in told) == ("FAIL", True)
        assert "redis+sentinel://" in change
        level, told, change = found(shell, "master locks", *url)
        assert (level, "add a replica" in change) == ("FAIL", True)
        assert f":{master.port}" in told
        eventually(lambda: master.command("PUBSUB", "NUMSUB", "__sentinel__:hello")[1], "it")
        level, told, change = found(shell, "sentinels", "--url", master.url)
        assert (level, "1 Sentinel(s)" in told) == ("WARN", True)
        assert "redis+sentinel://" in change
        master.stop()

        def down():
            """One look: while a Sentinel tries to connect again, it takes its word back."""
            one = found(shell, "master locks", *url)
            return "s_down" in one[1] and one

        level, _, change = eventually(down, "it")
        assert (level, change.startswith("start it")) == ("FAIL", True)


def test_a_sentinel_alone(shell, own_server):
    with replica_of(own_server), Sentinel(own_server, 1) as sentinel:
        eventually(lambda: sentinel.tells(num_slaves="1"), "the replica")
        level, _, change = found(shell, "master locks", "--url", sentinel.url)
    assert (level, "three Sentinels" in change) == ("WARN", True)


def test_sentinels_that_cannot_agree(shell, own_server):
    with replica_of(own_server), Sentinel(own_server, 2) as sentinel:
        eventually(lambda: sentinel.tells(num_slaves="1"), "the replica")
        level, told, change = found(shell, "master locks", "--url", sentinel.url)
    assert (level, "quorum 2" in told) == ("FAIL", True)
    assert "missing Sentinels" in change


# --- Cluster --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("binary", binaries(), ids=str)
def test_a_node_of_a_cluster(shell, binary):
    with Server(binary, args=["--cluster-enabled", "yes"]) as node:
        url = ("--url", node.url)
        node.command("CLUSTER", "ADDSLOTS", *range(8000))
        level, told, change = found(shell, "cluster", *url)
        assert (level, "8000 of 16384" in told) == ("FAIL", True)
        assert "ADDSLOTS" in change
        node.command("CLUSTER", "ADDSLOTS", *range(8000, 16384))
        eventually(lambda: "state:ok" in node.command("CLUSTER", "INFO"), "the Cluster")
        _, told = checks(shell, *url)
        assert told["cluster"]["level"] == "OK"
        assert (told["nodes"]["level"], "REPLICATE" in told["nodes"]["change"]) == ("WARN", True)
        assert "1 masters with slots, of 1 nodes" in told["nodes"]["found"]
        assert (told["source"]["level"], "redis+cluster" in told["source"]["change"]) == (
            "WARN",
            True,
        )
        assert told["permissions"]["level"] == "OK"


@pytest.mark.slow
def test_a_cluster_with_a_replica_and_without(shell):
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "500"]
    with Server(args=options) as master, Server(args=options) as replica:
        master.command("CLUSTER", "ADDSLOTS", *range(16384))
        replica.command("CLUSTER", "MEET", "127.0.0.1", master.port)
        mine = master.command("CLUSTER", "MYID")
        eventually(lambda: mine in replica.command("CLUSTER", "NODES"), "the meeting")
        eventually(lambda: accepts(replica, mine), "the replica")
        url = ("--url", master.url)
        eventually(lambda: "each with a replica" in found(shell, "nodes", *url)[1], "it")
        assert found(shell, "nodes", *url)[0] == "OK"
        replica.pause()
        eventually(lambda: "failed: 127" in found(shell, "nodes", *url)[1], "its failure")
        assert found(shell, "nodes", *url)[0] == "FAIL"


def accepts(replica, master):
    try:
        return replica.command("CLUSTER", "REPLICATE", master) == "OK"
    except Exception:  # noqa: BLE001 - not yet: it has only just met the master
        return False


# --- clocks and versions --------------------------------------------------------------------------


def test_a_clock_that_is_far_away(shell, clocked):  # noqa: F811 - the fixture
    server, jump = clocked
    jump(3600)
    level, told, change = found(shell, "clock", "--url", server.url)
    jump(-3600)
    assert (level, re.search("(1h00m|59m59s) ahead", told) is None) == ("WARN", False)
    assert "NTP" in change
    assert found(shell, "clock", "--url", server.url)[0] == "OK"


@pytest.mark.parametrize("seconds", [5, -5])
def test_a_clock_that_jumps_while_we_look(clocked, seconds, monkeypatch):  # noqa: F811 - the fixture
    monkeypatch.setattr(log, "prepare", log.prepare)  # a command keeps the library's log to itself
    server, put = clocked
    args = SimpleNamespace(url=server.url, prefix="fencelock:", verbose=False)
    with Session(args) as session:
        seen = asked.Server(session, asked.ALONE)
        seen.sample(3)
        assert jump(seen.samples) == 0
        put(seconds)
        seen.sample(3)
        assert jump(seen.samples) == pytest.approx(seconds, abs=0.5)
        (finding,) = jumps(seen)
    put(-seconds)
    assert finding.level == "FAIL"
    assert "NTP" in finding.change


def test_a_clock_that_was_set_back(shell, clocked):  # noqa: F811 - the fixture
    server, jump = clocked
    url = ("--url", server.url)
    assert "clock set back" not in checks(shell, *url)[1]
    shell("acquire", "x", *url)
    jump(-3600)
    level, told, _ = found(shell, "clock set back", *url)
    jump(3600)
    assert (level, "in the server's future" in told) == ("WARN", True)
    assert re.search("1h00m|5[0-9]m", told), told  # less what passed meanwhile


@pytest.mark.parametrize(
    ("info", "level"),
    [
        ({"redis_version": "6.0.16"}, "FAIL"),
        ({"redis_version": "6.2.0"}, "OK"),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.0"}, "OK"),
        ({}, "WARN"),
    ],
)
def test_versions(info, level):
    server = SimpleNamespace(info=info, command=lambda *_: None)
    assert [each.level for each in version(server)] == [level]
