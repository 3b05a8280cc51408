"""A user who may do what ``fencelock doctor`` prints, and nothing else; plain and over TLS.

The server's own log of refusals says whether something was missing. Nothing in the rule is there in
vain: without any one command something is refused, and the error names it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from pathlib import Path
from typing import Any

import pytest

from fencelock import Poll, ServerDenied
from fencelock._core.keys import SignalKeys
from fencelock.cli.doctor.acl import COMMANDS, MORE, acl_rule
from tests.conformance.everything import EVERYTHING, elections, locks, once, shares
from tests.conformance.test_sources import CLIENTS
from tests.conformance.world import World, started
from tests.replication import replicated
from tests.servers import Server, ServerBinary
from tests.tls import Front, certificate

# Each changes what one user of a server that all share may do, and looks into its log.
pytestmark = pytest.mark.one_play

PASSWORD = "s3cr:t/é"
QUOTED = "s3cr%3At%2F%C3%A9"
# What a release to a waiter may need, of one kind of object or another.
TAKEN = (
    *("del", "exists", "get", "hget", "hset", "pexpire", "set", "time", "zadd", "zpopmin"),
    *("zrange", "zrangebyscore", "zrem", "zscore"),
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lend one folder for the certificate of all tests."""
    return tmp_path_factory.mktemp("tls")


@functools.cache
def secure_server(binary: ServerBinary, folder: Path) -> tuple[Server, str]:
    """Return a server with its address for TLS: its own where it speaks it, else a front's."""
    cert, spare = certificate(folder), Server(binary)  # the spare one reserves a port
    options = ["--tls-port", str(spare.port), "--tls-auth-clients", "no"]
    options += ["--tls-cert-file", str(cert), "--tls-key-file", str(cert.parent / "key.pem")]
    started.append(spare)
    with contextlib.suppress(RuntimeError):  # it was built without
        started.append(Server(binary, args=options))
        return started[-1].start(), f"rediss://127.0.0.1:{spare.port}/0"
    started.append(Server(binary).start())
    front = Front(started[-1], folder).__enter__()  # its thread is a daemon
    return started[-1], front.url.partition("?")[0]


def secured(world: World, folder: Path, way: str) -> Any:
    """Return a source for a user who may do the smallest."""
    world.server, url = secure_server(world.server.binary, folder)
    grant(world)
    cert = certificate(folder)
    if way in CLIENTS:
        make = CLIENTS[way][0 if world.blocking else 1]
        url = url.replace("rediss", "rediss" if way == "redis" else "valkeys")
        return make.from_url(url, username="locker", password=PASSWORD, ssl_ca_certs=str(cert))
    if way == "plain":
        return as_user(world.server.tcp_url)
    return f"{as_user(url)}?ssl_ca_certs={cert}"


def as_user(url: str, user: str = "locker") -> str:
    return url.replace("://", f"://{user}:{QUOTED}@")


def grant(world: World, *changes: str, user: str = "locker") -> None:
    rule = acl_rule(world.prefix).replace(">PASSWORD", f">{PASSWORD}").split(" ")
    world.server.command(*rule[:2], user, *rule[3:], *changes)
    world.server.command("ACL", "LOG", "RESET")
    world.server.command("SCRIPT", "FLUSH")


def refused(world: World, user: str = "locker") -> list[str]:
    """Return what the server refused to a user, as its log has it."""
    entries = [
        dict(zip(one[::2], one[1::2], strict=True)) for one in world.server.command("ACL", "LOG")
    ]
    return [each["object"] for each in entries if each["username"] == user]


@pytest.mark.one_server
@pytest.mark.parametrize("way", ["url", "redis", "valkey", "plain"])
async def test_the_smallest_rule_is_enough_for_everything(world, folder, way):
    """All primitives, by URL and by client, with TLS: nothing is refused."""
    source = secured(world, folder, way)
    clients = world.client(source), world.client(source)
    for each in EVERYTHING:
        await each(world, *clients)
    assert refused(world) == []


@pytest.mark.one_server
@pytest.mark.parametrize("way", ["url", "plain"])
async def test_other_prefixes_stay_untouchable(world, folder, way):
    """Whatever the primitive: ServerDenied, which names the pattern; nothing changes there."""
    source = secured(world, folder, way)
    theirs = world.client(world.server.url, key_prefix=f"other-{world.prefix}")
    held = theirs.lock("a")
    assert await held.acquire()
    before = keys_and_values(world)
    client = world.client(source, key_prefix=f"other-{world.prefix}")
    pattern = r"the user lacks [~&]PREFIX\*.*`fencelock doctor`"
    for attempt in (
        client.lock("a").acquire(),
        client.lock("free").acquire(timeout=1),
        client.rlock("free", owner="job").acquire(),
        client.semaphore("s", 2).acquire(),
        client.rwlock("w").write.acquire(),
        client.event("e").set(),
        client.event("e").wait(1),
        client.election("v", candidate="ann").campaign(),
        client.once("o", within=60).run(never),
    ):
        with pytest.raises(ServerDenied, match=pattern) as raised:
            await attempt
        assert raised.value.code == "NOPERM"
    assert keys_and_values(world) == before
    await held.release()


def keys_and_values(world: World) -> dict[str, str]:
    keys = world.server.command("KEYS", f"other-{world.prefix}*")
    return {key: world.server.command("GET", key) for key in keys}


async def never() -> None:
    raise AssertionError("it ran without a lock")


@pytest.mark.one_server
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:a handle of .* was dropped:ResourceWarning")
async def test_each_command_of_the_rule_is_needed_and_named_when_it_lacks(world):
    """Without any one of them something is refused; an error that comes of it names it."""
    server = world.alone()
    names_them = server.binary.is_valkey  # Redis tells it of plain commands only
    for number, command in enumerate(COMMANDS):
        user = f"user{number}"
        server.flushall()
        whole = command.partition("|")[0]  # 6.2 knows no part of it
        grant(world, f"-{command if server.binary.release >= (7,) else whole}", user=user)
        error = await first_refusal(world, as_user(server.tcp_url, user), user)
        assert {whole, command} & set(refused(world, user))
        if error is not None:
            assert f"+{command}: " in str(error) or not names_them
            assert "`fencelock doctor`" in str(error)
            assert error.code == "NOPERM"
    gc.collect()  # what was refused half way, while its warnings are ignored


async def first_refusal(world: World, source: str, user: str) -> ServerDenied | None:
    """Use everything until something is refused; return the error, if it came to one."""
    client, other = world.client(source), world.client(source)
    for each in EVERYTHING:
        try:
            await each(world, client, other)
        except ServerDenied as error:
            return error
        if refused(world, user):
            return None
    raise AssertionError(f"{user} may do everything")


@pytest.mark.one_server
@pytest.mark.slow
async def test_clients_with_replicas_need_what_the_doctor_says(world):
    """Without it the error names what lacks; with it everything is acknowledged."""
    shared = world.server
    with replicated(1, shared.binary) as (master, _):
        world.server = master
        await world.until(lambda: heard(master), "the replica's first word")
        grant(world)
        source = as_user(master.tcp_url)
        with pytest.raises(ServerDenied, match=r"lacks \+(wait|info)"):
            await world.client(source, replicas=1).lock("a").acquire()
        grant(world, *MORE["clients with replicas"].split())
        clients = [world.client(source, replicas=1) for _ in range(2)]
        for each in (locks, shares, once, elections):
            await each(world, *clients)
        assert refused(world) == []
    world.server = shared


@pytest.mark.one_server
@pytest.mark.parametrize("command", ["evalsha", "eval", "subscribe"])
async def test_who_may_not_run_scripts_or_listen_is_told_what_poll_needs(world, command):
    """Nothing is taken that could be neither renewed nor released."""
    server = world.alone()
    grant(world, f"-{command}", user="little")
    client = world.client(as_user(server.tcp_url, "little"))
    with pytest.raises(ServerDenied, match=rf"lacks \+{command}: .*`wait=Poll\(\)`"):
        await client.lock("a").acquire(timeout=1)
    polling = client.lock("a", wait=Poll())
    if command == "subscribe":
        assert await polling.acquire(timeout=1)
        await polling.release()
        return
    for timeout in (0, 1):
        with pytest.raises(ServerDenied, match=rf"lacks \+{command}: .*`wait=Poll\(\)`"):
            await polling.acquire(timeout=timeout)
    assert world.holder("a") is None


@pytest.mark.one_server
@pytest.mark.parametrize("kind", ["lock", "multi", "semaphore", "write"])
async def test_a_right_that_is_taken_while_another_waits_changes_nothing(world, kind):
    """No grant that only its waiter knows of, and no key without an expiry."""
    server = world.alone()
    if server.binary.release < (7,):
        pytest.skip("a script cannot ask this server for a right")
    mine, others = world.client(as_user(server.tcp_url)), world.client(server.tcp_url)
    make = {
        "lock": lambda client, name: client.lock(name, cohort=None),
        "multi": lambda client, name: client.multi([name, f"{name}+"]),
        "semaphore": lambda client, name: client.semaphore(name, 1),
        "write": lambda client, name: client.rwlock(name).write,
    }[kind]
    for right in TAKEN:
        grant(world)
        holder, waiter = make(mine, right), make(others, right)
        assert await holder.acquire()
        waits = world.start(turn(waiter))
        await world.in_line(right, 1)
        grant(world, f"-{right}")
        before = keys_without_heartbeats(world)
        said = ""
        try:
            await holder.release()  # some do without this right
        except ServerDenied as error:
            said = str(error)
        if said:
            assert f"+{right}: " in said
            assert keys_without_heartbeats(world) == before
            for name in (right, f"{right}+") if kind == "multi" else (right,):
                await others.revoke(name, reason="its holder may not release it")
        await waits.result()


@pytest.mark.one_server
@pytest.mark.slow
async def test_all_who_wait_learn_soon_that_a_right_was_taken(world):
    """Not one of them with each heartbeat: the last of many would wait for minutes."""
    server = world.alone()
    grant(world)
    waiting, holding = world.client(as_user(server.tcp_url)), world.client(server.tcp_url)
    held, jobs = [holding.semaphore(f"s{n}", 1) for n in range(3)], []
    for handle in held:
        assert await handle.acquire()
        jobs += [world.start(waiting.semaphore(handle.name, 1).acquire()) for _ in range(4)]
        await world.in_line(handle.name, 4)
    jobs += [world.start(waiting.event("e").wait()) for _ in range(4)]
    watch = SignalKeys(world.prefix, "e").watch[1]
    await world.until(lambda: server.command("EXISTS", watch), "a wait for an event")
    grant(world, "-evalsha")
    for job in jobs:
        with pytest.raises(ServerDenied, match=r"lacks \+evalsha"):
            await job.result()
    for handle in held:
        await handle.release()


async def turn(handle: Any) -> None:
    assert await handle.acquire()
    await handle.release()


def keys_without_heartbeats(world: World) -> dict[str, tuple[str, bool]]:
    """Return the value of each key, and whether it has an expiry."""
    seen = ("~alive", "~history", "~index", "~orders")  # what is written in the background
    keys = [key for key in world.server.command("KEYS", "*") if not key.endswith(seen)]
    read = {"string": ("GET",), "zset": ("ZRANGE", 0, -1), "hash": ("HGETALL",)}
    found = {}
    for key in keys:
        name, *more = read[world.server.command("TYPE", key)]
        value = world.server.command(name, key, *more)
        found[key] = str(value), world.server.command("PTTL", key) > 0
    assert all(ends for _, ends in found.values())
    return found


def heard(master: Server) -> bool:
    """Return True if the replica has acknowledged something: before, it is online in name only."""
    master.command("PUBLISH", "anything", "")
    known = dict(
        each.partition("=")[::2] for each in master.info("replication")["slave0"].split(",")
    )
    return int(known["offset"]) > 0
