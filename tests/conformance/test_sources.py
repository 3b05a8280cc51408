"""Whatever the user brings: URLs, client objects, TLS, passwords and small permissions."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio

from fencelock import AsyncClient, Client, ServerDenied, ServerUnreachable
from tests.conformance.world import World, needs_no_server
from tests.servers import Server
from tests.tls import Front, certificate

pytestmark = pytest.mark.one_server  # the ways to name one server; a Cluster's: tests/cluster

# All that fencelock's scripts and connections use; nothing else is allowed in the ACL test.
COMMANDS = "hello auth select subscribe publish evalsha eval time "
COMMANDS += "get set del exists pexpire pttl sadd srem scard smembers "
COMMANDS += "zadd zrange zcard zrank zscore zpopmin zrem zremrangebyscore"


async def whole_life(world: World, source: object) -> None:
    """Take, wait in line, hand over, hear of it, renew and release over this source."""
    client, other = world.client(source), world.client(source)
    holder, waiter = client.lock("a", ttl=9), other.lock("a", ttl=9)
    await holder.acquire()
    assert world.connections()
    job = world.start(waiter.acquire())
    await world.in_line("a", 1)
    await holder.lease.renew()
    await holder.release()
    assert await job.result() is True
    assert await waiter.owned()
    assert await client.lock("a").acquire(blocking=False) is False
    await waiter.release()
    assert await client.lock("a").locked() is False
    assert world.holder("a") is None


CLIENTS = {
    "redis": (redis.Redis, redis.asyncio.Redis),
    "valkey": (valkey.Valkey, valkey.asyncio.Valkey),
}


@pytest.mark.parametrize("library", CLIENTS)
@pytest.mark.parametrize("way", ["unix", "tcp", "decoding, protocol 2", "own pool"])
async def test_a_client_object_is_a_source(world, library, way):
    """redis-py and valkey-py, of the face's colour; the user's own connections stay untouched."""
    make = CLIENTS[library][0 if world.blocking else 1]
    if way == "unix":
        theirs = make(unix_socket_path=str(world.server.socket))
    elif way == "tcp":
        theirs = make(port=world.server.port, db=2)
    elif way == "own pool":
        theirs = make.from_url(world.server.url, max_connections=1)
    else:
        theirs = make.from_url(world.server.tcp_url, decode_responses=True, protocol=2)
    if way == "tcp":
        world.server = InDatabase(world.server, 2)
    await whole_life(world, theirs)
    if world.blocking:
        theirs.close()
    else:
        await theirs.aclose()


class InDatabase(Server):
    """A running server, asked in another database."""

    def __init__(self, server: Server, number: int) -> None:
        self.__dict__.update(server.__dict__)
        self._number = number

    def command(self, *words: object) -> object:
        if words[0] in {"CLIENT", "INFO"}:
            return super().command(*words)
        script = "redis.call('SELECT', ARGV[1]); return redis.call(unpack(ARGV, 2))"
        return super().command("EVAL", script, 0, self._number, *words)


@pytest.mark.parametrize("url", ["url", "tcp_url", "valkey"])
async def test_a_url_is_a_source(world, url):
    """Unix socket and TCP; valkey:// means the same."""
    urls = {
        "url": world.server.url,
        "tcp_url": world.server.tcp_url,
        "valkey": world.server.tcp_url.replace("redis://", "valkey://"),
    }
    await whole_life(world, urls[url])


@needs_no_server
async def test_the_environment_names_a_source(world, monkeypatch):
    """No source: FENCELOCK_URL."""
    monkeypatch.setenv("FENCELOCK_URL", world.server.url)
    client = (Client if world.blocking else AsyncClient)()
    assert str(world.server.socket) in repr(client)


@pytest.mark.parametrize("form", ["url", "client", "bytes"])
async def test_a_password_and_a_minimal_acl_are_enough(world, form):
    """A user who may touch one prefix, its channels, and the commands that are needed."""
    server = world.server
    rules = [f"~{world.prefix}*", "resetchannels", f"&{world.prefix}*", "-@all"]
    rules += [f"+{command}" for command in COMMANDS.split()]
    server.command("ACL", "SETUSER", "app", "reset", "on", ">s3cr:t/é", *rules)
    try:
        if form == "url":
            url = server.tcp_url.replace("redis://", "redis://app:s3cr%3At%2F%C3%A9@")
            await whole_life(world, url)
            assert "s3cr" not in repr(world.client(url))
        else:
            make = CLIENTS["redis"][0 if world.blocking else 1]
            password = "s3cr:t/é" if form == "client" else "s3cr:t/é".encode()
            await whole_life(world, make(port=server.port, username="app", password=password))
    finally:
        server.command("ACL", "DELUSER", "app")


@pytest.mark.one_play  # it counts all users
@pytest.mark.parametrize("form", ["url", "url, empty password", "option", *CLIENTS])
async def test_a_user_without_a_password_logs_in_as_itself(world, form):
    """With its own rights, not those of ``default``; or it is refused, as redis-py is."""
    server = world.server
    urls = {
        "url": server.tcp_url.replace("redis://", "redis://little@"),
        "url, empty password": server.tcp_url.replace("redis://", "redis://little:@"),
        "option": f"{server.tcp_url}?username=little",
    }
    if form in urls:
        source = urls[form]
    else:
        source = CLIENTS[form][0 if world.blocking else 1](port=server.port, username="little")

    def users() -> dict[str, str]:
        listed = server.command("CLIENT", "LIST").splitlines()
        each = [dict(word.split("=", 1) for word in line.split()) for line in listed]
        return {one["id"]: one["user"] for one in each if one["name"] == "fencelock"}

    server.command("ACL", "SETUSER", "little", "reset", "on", "nopass", "~*", "&*", "+@all")
    before = users()  # those that wait for their second play
    try:
        await whole_life(world, source)
        assert {user for each, user in users().items() if each not in before} == {"little"}
        server.command("ACL", "SETUSER", "little", "resetpass", ">other")
        with pytest.raises(ServerDenied):
            await world.client(source).lock("b").acquire()
    finally:
        server.command("ACL", "DELUSER", "little")


# --- TLS ------------------------------------------------------------------------------------------


def tls_server(world: World, folder: Path) -> tuple[str, Path]:
    """Give the world a server with a TLS port; return that address and the authority."""
    cert = certificate(folder)
    spare = Server(world.server.binary)  # reserves another port
    world._own.append(spare)
    options = ["--tls-port", str(spare.port), "--tls-auth-clients", "no"]
    options += ["--tls-cert-file", str(cert), "--tls-key-file", str(cert.parent / "key.pem")]
    try:
        world.alone(*options)
    except RuntimeError:
        if "tls" in world.server.log.lower() or "directive" in world.server.log:
            pytest.skip(f"{world.server.binary} was built without TLS")
        raise
    return f"rediss://localhost:{spare.port}/0", cert


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Lend one folder for the certificate of all tests."""
    return tmp_path_factory.mktemp("tls")


async def test_tls_with_a_server_that_has_none_is_told(world):
    """The server waits for the rest of a command: the client says what it may be."""
    url = world.server.tcp_url.replace("redis://", "rediss://")
    lock = world.client(url, server_timeout=0.2).lock("a")
    with pytest.raises(
        ServerUnreachable, match="does not answer: does the server use TLS on that port"
    ) as caught:
        await lock.acquire()
    assert url in str(caught.value)


async def test_tls_by_url(world, folder):
    """rediss:// with an authority of one's own, as redis-py's query options say it."""
    url, cert = tls_server(world, folder)
    await whole_life(world, f"{url}?ssl_ca_certs={cert}")


async def test_tls_by_client_object(world, folder):
    """The client's own TLS settings come along."""
    url, cert = tls_server(world, folder)
    make = CLIENTS["redis"][0 if world.blocking else 1]
    await whole_life(world, make.from_url(url, ssl_ca_certs=str(cert)))


@needs_no_server
async def test_answers_in_several_tls_records(world, folder):
    """One reading may bring many records: none may be lost."""
    with Front(world.server, folder, record=9) as front:
        await whole_life(world, front.url)


@needs_no_server
async def test_a_plain_url_of_a_tls_port_is_recognised(world, folder):
    said = ""
    with Front(world.server, folder) as front:
        client = world.client(front.url.partition("?")[0].replace("rediss://", "redis://"))
        for _ in range(10):  # the time may end just before a connection that was begun is closed
            with pytest.raises(ConnectionError) as raised:
                await client.lock("a").acquire(timeout=0.2)
            said += str(raised.value)
            if "its URL begins with rediss://" in said:
                return
    pytest.fail(said)


@pytest.mark.parametrize("way", ["unknown authority", "TLS to a plain port", "plain to a TLS port"])
async def test_tls_trouble_is_unreachable(world, folder, way):
    """Never a hang, never "held": ServerUnreachable, within the time that was given."""
    url, _ = tls_server(world, folder)
    if way == "TLS to a plain port":
        url = world.server.tcp_url.replace("redis://", "rediss://")
    elif way == "plain to a TLS port":
        url = url.replace("rediss://", "redis://")
    told = way == "unknown authority"
    client = world.client(url, server_timeout=5 if told else 1)
    with pytest.raises(ConnectionError) as raised:
        await client.lock("a").acquire(timeout=5 if told else 0.5)
    if told:
        assert "certificate" in str(raised.value).lower()


# --- what is no source ----------------------------------------------------------------------------


@needs_no_server
@pytest.mark.parametrize(
    "url", ["http://localhost", "localhost:6379", "", "redis", "memcached://x"]
)
async def test_a_url_of_another_kind_is_refused(world, url):
    """A ValueError that lists what is understood."""
    with pytest.raises(ValueError, match="redis://"):
        (Client if world.blocking else AsyncClient)(url)


@needs_no_server
@pytest.mark.parametrize(
    "url", ["redis://localhost:port", "redis://localhost/x", "unix://", "unix:///s?db=x"]
)
async def test_a_url_that_makes_no_sense_is_refused(world, url):
    """A ValueError that tells which part."""
    with pytest.raises(ValueError, match="source URL"):
        (Client if world.blocking else AsyncClient)(url)


@needs_no_server
@pytest.mark.parametrize("library", CLIENTS)
async def test_a_client_of_the_wrong_colour_is_refused(world, library):
    """A TypeError that names the right one."""
    theirs = CLIENTS[library][1 if world.blocking else 0](port=1)
    wanted = library if world.blocking else f"{library}.asyncio"
    with pytest.raises(TypeError, match=wanted):
        (Client if world.blocking else AsyncClient)(theirs)


@needs_no_server
@pytest.mark.parametrize("source", [7, b"redis://localhost", object(), {"redis://localhost"}])
async def test_something_else_is_refused(world, source):
    """A TypeError that lists what can be given."""
    with pytest.raises(TypeError, match="source must be"):
        (Client if world.blocking else AsyncClient)(source)
