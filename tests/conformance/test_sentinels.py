"""Sentinels as a source: URLs, client objects, passwords, and Sentinels that are wrong or gone."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest
import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel as AioSentinel
from redis.asyncio.sentinel import SentinelManagedConnection as AioManaged
from redis.sentinel import Sentinel, SentinelManagedConnection
from valkey.asyncio.sentinel import Sentinel as AioValkeySentinel
from valkey.sentinel import Sentinel as ValkeySentinel

from fencelock import AsyncClient, Client, ServerDenied, ServerUnreachable, ServerUnsuitable
from fencelock._io.sources.kinds import Cloned, Direct
from fencelock._io.sources.resolve import resolve
from fencelock._topology.sentinel import SentinelReply, SentinelService
from tests.conformance.test_sources import whole_life
from tests.faults.proxy import Proxy
from tests.servers import Server, binaries
from tests.tls import certificate
from tests.topologies.sentinel import SERVICE, SentinelServer
from tests.waiting import machine_seconds

pytestmark = pytest.mark.sentinel

NAMED = SentinelReply(1, "127.0.0.1", 6379)
SENTINELS = {"redis": (Sentinel, AioSentinel), "valkey": (ValkeySentinel, AioValkeySentinel)}


def places(world):
    return [("127.0.0.1", each.port) for each in world.server.sentinels]


def asking(world, library="redis", **options):
    """Return a client library's own object that asks the world's Sentinels."""
    return SENTINELS[library][0 if world.blocking else 1](places(world), **options)


async def closed(world, *clients):
    for each in clients:
        if world.blocking:
            each.close()
        else:
            await each.aclose()


def url(world, hosts=None, service=SERVICE, query=""):
    named = hosts or [f"{host}:{port}" for host, port in places(world)]
    return f"redis+sentinel://{','.join(named)}/{service}/0{query}"


# --- client objects -------------------------------------------------------------------------------


@pytest.mark.parametrize("library", SENTINELS)
async def test_a_client_that_asks_sentinels_is_a_source(world, library):
    """Its Sentinels, its service and its credentials are used, none of its connections."""
    theirs = asking(world, library)
    client = theirs.master_for(SERVICE, decode_responses=True)
    source = resolve(client, asynchronous=not world.blocking)
    assert isinstance(source, SentinelService)
    assert isinstance(source.at(NAMED), Direct)
    assert len(source.sentinels) == 3
    await whole_life(world, client)
    assert not client.connection_pool._available_connections
    await closed(world, client, *theirs.sentinels)


class Managed(SentinelManagedConnection):
    """What a user may have made of it."""


class AsyncManaged(AioManaged):
    """What a user may have made of it."""


async def test_a_class_of_the_users_is_cloned_and_finds_the_master_itself(world):
    theirs = asking(world)
    kind = Managed if world.blocking else AsyncManaged
    client = theirs.master_for(SERVICE, connection_class=kind)
    assert isinstance(resolve(client, asynchronous=not world.blocking), Cloned)
    await whole_life(world, client)
    await closed(world, client, *theirs.sentinels)


async def test_settings_that_only_their_classes_know_come_along(world):
    """A provider of credentials: their connection class, our knowledge of where the master is."""
    theirs = asking(world)
    library = redis if world.blocking else redis.asyncio
    provider = redis.UsernamePasswordCredentialProvider("default", "")
    client = theirs.master_for(SERVICE, credential_provider=provider)
    source = resolve(client, asynchronous=not world.blocking)
    assert isinstance(source, SentinelService)
    master = source.at(NAMED)
    assert isinstance(master, Cloned)
    assert master.connection_class is library.Connection
    await whole_life(world, client)
    await closed(world, client, *theirs.sentinels)


@pytest.mark.parametrize("wrong", ["replicas", "colour"])
async def test_a_client_for_replicas_or_of_the_other_face_is_refused(world, wrong):
    make = Client if world.blocking else AsyncClient
    if wrong == "replicas":
        client, match = asking(world).slave_for(SERVICE), "master_for"
    else:
        other = SENTINELS["redis"][1 if world.blocking else 0](places(world))
        client, match = other.master_for(SERVICE), "client"
    with pytest.raises(TypeError, match=match):
        make(client)


# --- passwords ------------------------------------------------------------------------------------


async def test_sentinels_and_servers_have_passwords_of_their_own(world):
    """Each is told its own; a wrong one of a Sentinel is told as such."""
    for each in world.server.sentinels:
        each.command("ACL", "SETUSER", "asker", "on", ">s1", "&*", "+@all")
    for each in world.server.servers:
        each.command("ACL", "SETUSER", "locker", "on", ">m2", "~*", "&*", "+@all")
    right = url(world, query="?sentinel_username=asker&sentinel_password=s1")
    await whole_life(world, right.replace("://", "://locker:m2@"))
    wrong = world.client(right.replace("s1", "s2"))
    with pytest.raises(ServerDenied, match="Sentinel"):
        await wrong.lock("a").acquire(blocking=False)
    wrong = world.client(right.replace("://", "://locker:m3@"))
    with pytest.raises(ServerDenied):
        await wrong.lock("a").acquire(blocking=False)


async def test_users_without_passwords_log_in_as_themselves(world):
    user = f"open-{world.prefix[:-1]}"  # no server knows it from another test
    right = url(world, query=f"?sentinel_username={user}").replace("://", f"://{user}@")
    with pytest.raises(ServerDenied, match="Sentinel"):
        await world.client(right).lock("a").acquire(blocking=False)
    for each in world.server.sentinels:
        each.command("ACL", "SETUSER", user, "on", "nopass", "&*", "+@all")
    with pytest.raises(ServerDenied):
        await world.client(right).lock("a").acquire(blocking=False)
    for each in world.server.servers:
        each.command("ACL", "SETUSER", user, "on", "nopass", "~*", "&*", "+@all")
    await whole_life(world, right)


async def test_the_smallest_permissions_that_do(world):
    """As documented: a Sentinel's user that may ask two questions and greet."""
    rules = "reset on >s1 resetchannels -@all +auth +hello +sentinel|master"
    rules += " +sentinel|get-master-addr-by-name"
    for each in world.server.sentinels:
        each.command("ACL", "SETUSER", "little", *rules.split())
    await whole_life(world, url(world, query="?sentinel_username=little&sentinel_password=s1"))


# --- Sentinels that are wrong or gone -------------------------------------------------------------


async def test_an_unknown_service_is_told(world):
    lock = world.client(url(world, service="nowhere")).lock("a")
    with pytest.raises(ServerUnsuitable, match="service"):
        await lock.acquire(timeout=5)


@contextlib.contextmanager
def mute():
    """Lend a port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.prompt
async def test_one_sentinel_that_is_gone_or_silent_does_not_matter(world):
    with mute() as silent:
        last = places(world)[-1]
        hosts = [silent, "127.0.0.1:1", f"{last[0]}:{last[1]}"]
        await whole_life(world, url(world, hosts))


@pytest.mark.parametrize("way", ["gone", "silent"])
@pytest.mark.prompt
async def test_without_any_sentinel_the_error_comes_in_time(world, way):
    with mute() as silent:
        hosts = ["127.0.0.1:1", "127.0.0.1:1"] if way == "gone" else [silent]
        lock = world.client(url(world, hosts)).lock("a")
        begun = time.monotonic()
        with pytest.raises(ServerUnreachable, match="Sentinel"):
            await lock.acquire(timeout=0.8)
        assert time.monotonic() - begun < 0.8 + 0.1 + machine_seconds()


@pytest.mark.slow
@pytest.mark.parametrize("then", ["refuse", "blackhole"])
@pytest.mark.prompt
async def test_without_sentinels_the_master_that_was_known_last_is_used(world, then):
    """A new connection to it is opened, too; no call takes longer than it was given."""
    with contextlib.ExitStack() as stack:
        fronts = [stack.enter_context(Proxy(each)) for each in world.server.sentinels]
        client = world.client(url(world, [f"127.0.0.1:{each.port}" for each in fronts]))
        async with client.lock("a"):
            pass
        for each in fronts:
            each.new_connections = then
        ends, times = time.monotonic() + 1.6, []
        while time.monotonic() < ends:
            begun = time.monotonic()
            lock = client.lock(f"b{len(times)}")
            assert await lock.acquire(timeout=0.3)
            times.append(time.monotonic() - begun)
            await lock.release()
            for line in world.connections():
                world.server.command("CLIENT", "KILL", "ID", line.split()[0].removeprefix("id="))
        assert max(times) < 0.3 + 0.1 + machine_seconds()


async def test_a_server_that_is_no_sentinel_is_told(world):
    host = f"127.0.0.1:{world.server.master.port}"
    lock = world.client(url(world, [host])).lock("a")
    with pytest.raises(ServerUnsuitable, match="this is no Sentinel: use redis://"):
        await lock.acquire(timeout=2)


def questions(world):
    """Return how many connections the first Sentinel has had, but for this question's."""
    sentinel = world.server.sentinels[0]
    return int(sentinel.info("stats")["total_connections_received"])


@pytest.mark.slow
async def test_sentinels_are_asked_once_a_second_by_who_works_and_never_by_who_holds(world):
    client = world.client()
    lock = client.lock("a", ttl=20)
    async with lock:
        pass
    before, ends, runs = questions(world), time.monotonic() + 2.5, 0
    while time.monotonic() < ends:
        async with lock:
            runs += 1
    asked = questions(world) - before - 1
    assert runs > 100
    assert 1 <= asked <= 4
    async with lock as lease:
        await world.until(lambda: client_listens(world), "revocations are heard")
        before = questions(world)
        ends = time.monotonic() + 1.5
        while time.monotonic() < ends:
            await world.tick()
        assert questions(world) - before <= 1 + 1  # ours, and of the renewal that looks once
        assert not lease.lost


def client_listens(world):
    return any(" sub=1 " in line for line in world.connections())


# --- TLS ------------------------------------------------------------------------------------------


@pytest.fixture
def secure(tmp_path):
    """Lend the port of a Sentinel whose service is reached by TLS only, and the authority."""
    cert = certificate(tmp_path)
    files = {"tls-cert-file": cert, "tls-key-file": cert.parent / "key.pem"}
    options = {**files, "tls-ca-cert-file": cert, "tls-auth-clients": "no"}
    with contextlib.ExitStack() as stack:
        server, port = stack.enter_context(_with_tls(options))
        spare = stack.enter_context(contextlib.closing(Server(server.binary)))
        config = f"tls-port {spare.port}\ntls-replication yes\n"
        config += f"sentinel monitor {SERVICE} 127.0.0.1 {port} 1\n"
        config += "".join(f"{name} {value}\n" for name, value in options.items())
        stack.enter_context(SentinelServer(server.binary, config=config))
        yield server, spare.port, cert


@contextlib.contextmanager
def _with_tls(options):
    """Start the first server of this machine that was built with TLS; lend it and its TLS port."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    for binary in binaries():
        with contextlib.closing(Server(binary)) as spare:
            server = Server(binary, args=[*words, "--tls-port", str(spare.port)])
            try:
                server.start()
            except RuntimeError:
                server.close()
                continue
            with contextlib.closing(server):
                yield server, spare.port
            return
    pytest.skip("no server of this machine was built with TLS")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["url", "client"])
async def test_tls_to_sentinel_and_master(world, secure, form):
    """All by TLS, with an authority of one's own."""
    world.server, port, cert = secure
    await whole_life(world, tls_source(world, form, port, cert))


def tls_source(world, form, port, cert):
    if form == "url":
        query = f"?ssl_ca_certs={cert}&ssl_check_hostname=false"
        return f"rediss+sentinel://127.0.0.1:{port}/{SERVICE}/0{query}"
    secure = {"ssl": True, "ssl_ca_certs": str(cert), "ssl_check_hostname": False}
    make = SENTINELS["redis"][0 if world.blocking else 1]
    return make([("127.0.0.1", port)], sentinel_kwargs=secure).master_for(SERVICE, **secure)
