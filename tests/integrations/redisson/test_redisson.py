"""Locks of the real Redisson, in a JVM, beside ours: each side's rules hold for the other side.

A lease of ten minutes says that only a message can wake who waits: no test lasts so long.
"""

import contextlib
import functools
import os
import re
import socket
import subprocess
import threading

import pytest

from tests.integrations.redisson.conftest import NEWEST, OLDER, WATCHDOG_MS, Members
from tests.integrations.redisson.members import Refused
from tests.test_docs import ROOT, blocks
from tests.topologies.cluster import Cluster
from tests.waiting import until

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "how-to" / "share-a-lock-with-java.md"
TURNS = 10_000
TEN_MINUTES_MS = 600_000
WRITES = re.compile(r'"(hset|hincrby)"', re.IGNORECASE)
LOST = r"LeaseLost|IllegalMonitorState"  # what a holder finds out when it unlocks
SIDES = ["java to python", "python to java"]


def channel_of(name):
    return f"redisson_lock__channel:{name if '{' in name else '{' + name + '}'}"


def in_order(side, java, python):
    """Return the member that holds, and the one that waits."""
    return (java, python) if side == SIDES[0] else (python, java)


def listeners(server, name):
    return server.command("PUBSUB", "NUMSUB", channel_of(name))[1]


class Monitor:
    """What clients and scripts say to a server, line by line."""

    def __init__(self, server):
        self._line = socket.create_connection(("127.0.0.1", server.port))
        self._line.sendall(b"MONITOR\r\n")
        self._file = self._line.makefile("r", errors="replace")
        assert self._file.readline() == "+OK\n"
        self._said = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with contextlib.suppress(OSError, ValueError):
            for line in self._file:
                self._said.append(line)

    def since(self, command, name):
        """Return what was said since the first such command at the channel of this lock.

        A client that an earlier test left behind may publish something of its own.
        """
        said, start = self._said[:], f'] "{command}" "{channel_of(name)}"'.upper()
        found = (n for n, each in enumerate(said) if start in each.upper())
        return said[next(found, len(said)) :]

    def asked_since(self, command, name):
        """Return which clients' commands since then name this lock, and the scripts' writes."""
        own = [each for each in self.since(command, name) if f'"{name}"' in each]
        return [each for each in own if " lua] " not in each or WRITES.search(each)]

    def close(self):
        self._line.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._line.close()


@pytest.mark.parametrize(("version", "turns"), [(NEWEST, TURNS), (OLDER, TURNS // 10)])
def test_ten_thousand_turns_without_an_overlap_and_each_side_is_served(
    version, turns, members, tmp_path, record_property
):
    three = [members.java(version), members.python("threads"), members.python("asyncio")]
    (tmp_path / "count").write_text("0")

    asked = [each.ready().ask("turns", "all", "orders", tmp_path, turns, 4) for each in three]
    had = [[int(one) for one in str(each.result(120)).split(",")] for each in asked]

    record_property("turns", had)
    assert int((tmp_path / "count").read_text()) == turns == sum(map(sum, had))
    assert all(one for each in had for one in each), had


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", ["orders", "a{b}c"])
def test_a_holder_excludes_the_other_side_and_enters_again(side, name, java, python, server):
    holder, other = in_order(side, java, python)
    assert holder.lock("a", name)
    assert holder.lock("a", name)

    until(lambda: server.command("HVALS", name) == ["2"])  # ours sends it in the background
    assert (holder.owned("a", name), other.owned("a", name)) == (True, False)
    assert (holder.locked("a", name), other.locked("a", name)) == (True, True)
    assert not other.try_("a", name, 0)
    assert not holder.try_("b", name, 0)

    holder.unlock("a", name)
    until(lambda: server.command("HVALS", name) == ["1"])
    assert not other.try_("a", name, 0)
    holder.unlock("a", name)
    assert other.try_("a", name, 0)
    other.unlock("a", name)
    assert not server.command("EXISTS", name)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", ["orders", "a{b}c"])
def test_a_release_wakes_the_other_side_by_its_message(side, name, java, python, server):
    holder, other = in_order(side, java, python)
    assert holder.try_("a", name, 0, TEN_MINUTES_MS)
    with contextlib.closing(Monitor(server)) as monitor:
        waiting = other.ask("try", "w", name, TEN_MINUTES_MS, TEN_MINUTES_MS)
        until(lambda: monitor.asked_since("SUBSCRIBE", name), "it asked again once it listened")
        assert server.command("PTTL", name) > TEN_MINUTES_MS / 2
        holder.unlock("a", name)

        assert waiting.result() is True
        until(lambda: any(map(WRITES.search, monitor.asked_since("PUBLISH", name))))

    asked, entered, *_ = said = monitor.asked_since("PUBLISH", name)
    assert " lua] " not in asked, said  # one question, no look before it
    assert WRITES.search(entered), said
    other.unlock("w", name)


def test_both_sides_renew_while_they_hold(java, python, server):
    for holder, other in ((java, python), (python, java)):
        assert holder.lock("a", "orders")
        for _ in range(3):
            renewed(server, "orders")
        assert not other.try_("a", "orders", 0)
        holder.unlock("a", "orders")


def renewed(server, name):
    """Wait until the time that it has left grows."""
    least = WATCHDOG_MS

    def grown():
        nonlocal least
        before, least = least, server.command("PTTL", name)
        return least > before

    until(grown, "it is renewed")


@pytest.mark.parametrize("side", SIDES)
def test_force_unlock_takes_the_lock_from_the_other_side(side, java, python, server):
    holder, other = in_order(side, java, python)
    assert holder.lock("a", "orders")
    waiting = other.ask("lock", "w", "orders")
    until(lambda: listeners(server, "orders") == 1, "it listens")

    assert other.force("b", "orders") is True

    assert waiting.result() is True
    assert other.force("b", "jobs") is False
    if holder is python:  # Redisson's finds out when it unlocks
        until(lambda: holder.lost("a", "orders"), "its renewal finds out")
    with pytest.raises(Refused, match=LOST):
        holder.unlock("a", "orders")
    assert other.owned("w", "orders")
    renewed(server, "orders")
    other.unlock("w", "orders")


def test_fenced_locks_count_on_together(java, python, server):
    for number in (1, 2):
        assert java.token("a", "orders") == number  # Redisson counts when it enters again, too
    with pytest.raises(Refused):
        python.unlock("b", "orders")
    assert not python.try_("a", "orders", 0)
    java.unlock("a", "orders")
    java.unlock("a", "orders")

    assert [python.token("a", "orders") for _ in range(2)] == [3, 3]  # ours does not
    assert not java.try_("a", "orders", 0)
    python.unlock("a", "orders")
    python.unlock("a", "orders")

    assert java.token("a", "orders") == 4
    java.unlock("a", "orders")
    assert server.command("GET", "redisson_lock_token:{orders}") == "4"


def test_the_java_of_the_page_runs(class_path_of, server, tmp_path):
    (program,) = (one.text for one in blocks(PAGE) if one.info == "java")
    address = server.tcp_url.removesuffix("/0")
    (tmp_path / "Report.java").write_text(program.replace("redis://127.0.0.1:6379", address))
    path = f"{class_path_of(NEWEST)}{os.pathsep}{tmp_path}"
    compiled = subprocess.run(
        ["javac", "-cp", path, "-d", tmp_path, tmp_path / "Report.java"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr

    ran = subprocess.run(
        ["java", "-cp", path, "Report"], capture_output=True, text=True, timeout=60, check=False
    )

    assert (ran.returncode, ran.stdout) == (0, "Java has the lock\n"), ran.stderr
    assert not server.command("EXISTS", "report")


# --- what ends a member, or its connections -------------------------------------------------------


# --- where names and messages go ------------------------------------------------------------------


def test_a_mapped_name_is_written_as_it_is_on_the_server(members):
    java, python = members.java(prefix="app:").ready(), members.python("threads").ready()
    assert java.try_("a", "orders", 0)
    assert python.try_("a", "orders", 0)
    assert not python.try_("a", "app:orders", 0)
    waiting = python.ask("lock", "w", "app:orders")
    java.unlock("a", "orders")
    assert waiting.result() is True


def test_on_a_cluster_both_sides_use_sharded_channels(class_path_of):
    with Cluster(replicas=0) as cluster, contextlib.ExitStack() as stack:
        first = f"redis://127.0.0.1:{cluster.nodes[0].port}"
        members = Members(stack, class_path_of, first, cluster.url)
        java, python = members.java(cluster="true"), members.python("threads")
        java.ready()
        python.ready()
        for holder, other in ((java, python), (python, java)):
            assert holder.try_("a", "orders", 0, TEN_MINUTES_MS)
            with contextlib.closing(Monitor(cluster.owner("orders"))) as monitor:
                waiting = other.ask("lock", "w", "orders")
                asked = functools.partial(monitor.asked_since, "SSUBSCRIBE", "orders")
                until(asked, "it asked again once it listened")
            holder.unlock("a", "orders")
            assert waiting.result() is True
            other.unlock("w", "orders")
