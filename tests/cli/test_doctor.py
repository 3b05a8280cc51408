"""``fencelock doctor``: each check on a server that has the trouble, and all on a healthy one."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from fencelock.cli.doctor import beside, health
from fencelock.cli.doctor.relatives import RELATIVES, kind
from tests.cli.shell import eventually
from tests.servers import Server, binaries
from tests.tls import Front
from tools import server_check

HEALTHY = ["--appendfsync", "everysec", "--appendonly", "yes"]


def checks(shell, *words, **options):
    """Return the exit status, and the findings by what they are about."""
    result = shell("doctor", "--json", *words, **options)
    return result.status, {each["what"]: each for each in result.json["checks"]}


def found(shell, what, *words):
    """Return level, text and advice of one finding."""
    status, told = checks(shell, *words)
    one = told[what]
    assert status == ("FAIL" in {each["level"] for each in told.values()})
    return one["level"], one["found"], one["change"]


@pytest.fixture
def url_of():
    """Lend the quickest way to a server: what is found does not depend on it."""
    return lambda server: server.url


@pytest.fixture
def own_url(own_server):
    return "--url", own_server.url


# --- a healthy server, and none -------------------------------------------------------------------


@pytest.mark.parametrize("binary", binaries(), ids=str)
def test_a_healthy_server_is_found_well(shell, binary, url_of):
    with Server(binary, args=HEALTHY) as server:
        status, told = checks(shell, "--url", url_of(server))
        out = shell("doctor", "--url", url_of(server)).out
    assert status == 0
    assert {each["level"] for each in told.values()} == {"OK"}, told
    assert told["server"]["found"] == str(binary).replace("-", " ").title()
    assert "answers in" in told["reachable"]["found"]
    assert "hiredis" in told["python"]["found"]
    asked = {"server", "reachable", "permissions", "role", "eviction", "memory", "persistence"}
    assert asked | {"python", "clients", "stalls", "clock", "clock jumps"} == set(told)
    first, rule = out.split("\n\n")
    assert all(line.split()[0] in {"OK", "->"} for line in first.splitlines())
    assert "ACL SETUSER" in rule
    assert "+scan" in rule


def test_it_looks_through_tls(shell, own_server, folder):
    with Front(own_server, folder) as front:
        status, told = checks(shell, "--url", front.url)
    assert status == 0
    assert told["permissions"]["level"] == told["clock jumps"]["level"] == "OK"


def test_a_server_that_is_not_there(shell, tmp_path):
    level, told, _ = found(shell, "server", "--url", f"unix://{tmp_path}/nothing")
    assert level == "FAIL"
    assert "cannot connect" in told


def test_a_wrong_password(shell, own_server):
    own_server.command("ACL", "SETUSER", "ann", "on", ">right", "+@all")
    url = f"redis://ann:wrong@127.0.0.1:{own_server.port}/0"
    level, told, change = found(shell, "server", "--url", url)
    assert (level, "wrong" in told) == ("FAIL", True)
    assert "in the URL" in change
    assert ":wrong" not in told


@pytest.mark.slow
def test_a_server_that_is_busy_with_a_script(shell, own_server, own_url):
    own_server.command("CONFIG", "SET", "lua-time-limit", 20)
    with endless_script(own_server):
        level, told, change = found(shell, "server", *own_url)
    assert (level, "busy" in told) == ("FAIL", True)
    assert "SCRIPT KILL" in change


@contextlib.contextmanager
def endless_script(server):
    import socket  # noqa: PLC0415 - only here is a request left without its answer

    def busy():
        with contextlib.suppress(Exception):
            server.command("GET", "x")
            return False
        return True

    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(b"EVAL 'while true do end' 0\r\n")
        eventually(busy, "BUSY")
        yield
        server.command("SCRIPT", "KILL")


@pytest.mark.slow
def test_a_server_with_no_connection_left(shell, own_server):
    own_server.command("CONFIG", "SET", "maxclients", 1)
    with open_line(own_server):
        level, told, change = found(shell, "server", "--url", own_server.tcp_url)
        assert (level, "maxclients" in told) == ("FAIL", True)
        assert "maxclients" in change
    own_server.command("CONFIG", "SET", "maxclients", 100)
    level, told, _ = found(shell, "clients", "--url", own_server.tcp_url)
    assert (level, "refused since the start" in told) == ("WARN", True)


@contextlib.contextmanager
def open_line(server):
    import socket  # noqa: PLC0415 - as above

    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(b"PING\r\n")
        assert line.recv(7) == b"+PONG\r\n"
        yield


# --- what loses locks -----------------------------------------------------------------------------


def test_eviction(shell, own_server, own_url):
    for policy, words in (("volatile-ttl", "evicts locks first"), ("allkeys-lru", "two holders")):
        own_server.command("CONFIG", "SET", "maxmemory", 0)
        own_server.command("CONFIG", "SET", "maxmemory-policy", policy)
        level, told, change = found(shell, "eviction", *own_url)
        assert (level, words in told) == ("WARN", True)
        own_server.command("CONFIG", "SET", "maxmemory", "100mb")
        level, told, change = found(shell, "eviction", *own_url)
        assert (level, policy in told) == ("FAIL", True)
        assert "noeviction" in change


def test_eviction_that_has_happened(shell, own_server, own_url):
    own_server.command("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    own_server.command("SET", "lock", "holder", "PX", 100_000)
    own_server.command("CONFIG", "SET", "maxmemory", 1)
    eventually(lambda: not own_server.command("EXISTS", "lock"), "the eviction")
    own_server.command("CONFIG", "SET", "maxmemory", 0)
    level, told, _ = found(shell, "eviction", *own_url)
    assert (level, "1 keys were" in told) == ("FAIL", True)


def test_memory_that_is_short(shell, own_server, own_url):
    used = int(own_server.info("memory")["used_memory"])
    own_server.command("CONFIG", "SET", "maxmemory", used + 100_000)
    assert found(shell, "memory", *own_url)[0] == "WARN"
    own_server.command("CONFIG", "SET", "maxmemory", 1000)
    level, told, change = found(shell, "memory", *own_url)
    assert (level, "OOM" in told) == ("FAIL", True)
    assert "maxmemory" in change


def test_persistence(shell, own_server, own_url):
    level, told, change = found(shell, "persistence", *own_url)
    assert (level, told.startswith("none")) == ("WARN", True)
    assert "appendonly" in change
    own_server.command("CONFIG", "SET", "save", "3600 1")
    level, told, _ = found(shell, "persistence", *own_url)
    assert (level, told.startswith("snapshots only")) == ("WARN", True)
    own_server.command("CONFIG", "SET", "appendonly", "yes")
    for sync, level, words in (
        ("no", "WARN", "half minute"),
        ("everysec", "OK", "second or two"),
        ("always", "OK", "nothing is lost"),
    ):
        own_server.command("CONFIG", "SET", "appendfsync", sync)
        told = found(shell, "persistence", *own_url)
        assert (told[0], words in told[1]) == (level, True)


def test_a_snapshot_that_failed(shell, own_server, own_url):
    (own_server.directory / "dump.rdb").mkdir()  # nothing can be renamed to it
    own_server.command("SET", "key", "value", "PX", 100_000)
    own_server.command("BGSAVE")
    eventually(lambda: own_server.info("persistence")["rdb_last_bgsave_status"] == "err", "it")
    level, told, change = found(shell, "persistence", *own_url)
    assert (level, "MISCONF" in told) == ("FAIL", True)
    assert "log" in change


@pytest.mark.parametrize("limit", [0, 60_000])
def test_scripts_that_may_run_for_very_long(shell, own_server, own_url, limit):
    assert found(shell, "stalls", *own_url)[0] == "OK"
    own_server.command("CONFIG", "SET", "lua-time-limit", limit)
    level, told, change = found(shell, "stalls", *own_url)
    assert (level, f"lua-time-limit {limit}" in told) == ("WARN", True)
    assert "5000" in change


def test_a_fork_that_stops_everybody():
    """A small server forks in no time, so the answers are made up."""
    known = {"maxclients": "10", "connected_clients": "9", "latest_fork_usec": "900000"}
    server = SimpleNamespace(info=known, setting=lambda _: "5000")
    (clients,), (stalls,) = health.clients(server), health.stalls(server)
    assert (clients.level, "9 of 10" in clients.found) == ("WARN", True)
    assert (stalls.level, "0.9 s" in stalls.found) == ("WARN", True)


# --- other makers, and other versions -------------------------------------------------------------


def at(url="redis://localhost/0", **info):
    return SimpleNamespace(info=info, session=SimpleNamespace(url=lambda: url))


@pytest.mark.parametrize(
    ("server", "name"),
    [
        (at(redis_version="7.2.4", redict_version="7.3.6"), "Redict 7.3.6"),
        (at(redis_version="6.3.4", mvcc_depth="0"), "KeyDB"),
        (at(redis_version="7.4.0", dragonfly_version="df-v1.30.0"), "Dragonfly df-v1.30.0"),
        (at(redis_version="4.0.0", kvrocks_version="2.10.0"), "Kvrocks 2.10.0"),
        (at(redis_version="7.4.3", garnet_version="1.0.84"), "Garnet 1.0.84"),
        (
            at("rediss+cluster://u:p@a.serverless.use1.cache.amazonaws.com:6379"),
            "ElastiCache Serverless",
        ),
        (at("rediss://a.b.ng.0001.use1.cache.amazonaws.com:6379/0"), "ElastiCache"),
        (at("rediss+cluster://clustercfg.a.memorydb.us-east-1.amazonaws.com:6379"), "MemoryDB"),
        (at("rediss://default:p@eu1-a-1.upstash.io:6379"), "Upstash"),
    ],
)
def test_a_server_of_another_maker_is_recognised(server, name):
    (told,) = kind(server)
    assert told.found.startswith(f"{name}: ")
    assert (told.level == "OK") is (told.change == "") is ("Redict" in name)


def test_a_server_of_redis_or_valkey_is_of_no_other_maker():
    assert kind(at(redis_version="8.6.3")) == kind(at(valkey_version="9.1.2")) == []
    assert kind(at("redis://upstash.io.example.org/0")) == []


def test_the_page_of_servers_has_what_the_doctor_says_and_what_is_fetched():
    page = (server_check.ROOT / "docs/reference/servers.md").read_text()
    fetched = {
        f"| {name.replace('-', ' ').title()} | {source} |"
        for name, source in server_check.SERVERS.items()
    }
    known = {
        f"| {each.name} | {each.shown_sign} | {each.shown} | {each.open_questions} | "
        + ", ".join(f"[{place}]({url})" for place, url in enumerate(each.sources, 1))
        + " |"
        for each in RELATIVES
    }
    about = page.partition("\n## Far servers\n")
    page = about[0] + about[2].partition("\n## ")[1] + about[2].partition("\n## ")[2]
    rows = {line for line in page.splitlines() if line.startswith("| ")}
    assert rows - fetched - known == {line for line in rows if line.startswith("| server | ")} | {
        line for line in rows if line.startswith("| --- |")
    }
    assert fetched | known <= rows


@pytest.mark.parametrize(
    ("release", "level"),
    [
        ("6.2.5", "WARN"),
        ("6.2.6", "WARN"),
        *((new, "FAIL") for new in ("6.2.7", "6.2.14", "7.0.0")),
    ],
)
def test_a_redis_whose_scripts_write_without_replicas(release, level):
    info = {"redis_version": release, "role": "master", "min_slaves_good_slaves": "0"}
    (told,) = beside.min_replicas(SimpleNamespace(info=info, setting=lambda _: "1"))
    assert told.level == level
    assert ("6.2.7" in told.change) is (level == "WARN")
    alone = SimpleNamespace(info=info, setting=lambda _: "0")
    assert beside.min_replicas(alone) == []


# --- others beside it -----------------------------------------------------------------------------


@contextlib.contextmanager
def replica_of(server, *args):
    server.command("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    with Server(server.binary, args=["--replicaof", "127.0.0.1", str(server.port), *args]) as one:
        eventually(lambda: "online" in server.info("replication").get("slave0", ""), "the link")
        yield one


def test_a_replica_and_its_master(shell, own_server, own_url):
    with replica_of(own_server) as replica:
        level, told, change = found(shell, "role", "--url", replica.url)
        assert (level, "a replica of" in told) == ("FAIL", True)
        assert str(own_server.port) in change
        level, told, change = found(shell, "role", *own_url)
        assert (level, "1 replica" in told) == ("WARN", True)
        assert "fencing token" in change
        level, told, _ = found(shell, "replica", *own_url)
        assert (level, "online" in told) == ("OK", True)
        level, _, change = found(shell, "min-replicas", *own_url)
        assert (level, "min-replicas-to-write 1" in change) == ("WARN", True)
        assert "its replicas lose their data" in found(shell, "persistence", *own_url)[1]
        own_server.command("CONFIG", "SET", "min-replicas-to-write", 1)
        level, told, _ = found(shell, "min-replicas", *own_url)
        assert (level, "after 10 s" in told) == ("OK", True)
    level, told, _ = found(shell, "min-replicas", *own_url)
    assert (level, "NOREPLICAS" in told) == ("FAIL", True)


@pytest.mark.slow
def test_a_replica_that_lags(shell, own_server, own_url):
    with replica_of(own_server) as replica:
        replica.pause()
        eventually(lambda: "lag=6" in own_server.info("replication").get("slave0", ""), "the lag")
        level, _, change = found(shell, "replica", *own_url)
        replica.resume()
    assert (level, "a failover loses" in change) == ("WARN", True)
