"""The error map: each trouble of a server, provoked, is what ``errors.py`` says; never "held"."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading
import time
import traceback
import weakref
from typing import Self

import pytest

from fencelock import (
    AcquireTimeout,
    BarrierBroken,
    ClientClosed,
    Cohort,
    FencelockError,
    LeaseLost,
    NotAcquired,
    NotHeld,
    OutcomeUnknown,
    Poll,
    ServerDenied,
    ServerError,
    ServerReadOnly,
    ServerUnreachable,
    ServerUnsuitable,
)
from fencelock._runtime.clock import now
from tests.conformance.world import needs_no_server
from tests.servers import Server

SILENT = (OutcomeUnknown, ServerUnreachable)
ATTEMPTS = {
    "once": {"blocking": False},
    "in line": {"timeout": 0.4},
}


async def refused(lock, kind, **how) -> FencelockError:
    """Return the error of an acquire, which is of this kind and never "not acquired"."""
    with pytest.raises(kind) as raised:
        assert await lock.acquire(**how), "an error looked like: held"
    assert not isinstance(raised.value, NotAcquired)
    return raised.value


async def refused_everywhere(client, kind, code: str) -> None:
    """See that every way to ask ends with this error."""
    for way in ATTEMPTS.values():
        error = await refused(client.lock("a"), kind, **way)
        assert error.code == code
        assert isinstance(error.__cause__, Exception)
        assert code in str(error.__cause__) or code in str(error)
    asked = (
        client.lock("a", wait=Poll()),
        client.lock("a", max_hold=9),
        client.rlock("a", owner="me"),
    )
    for lock in asked:
        error = await refused(lock, kind, blocking=False)
        assert error.code == code


# --- silence and broken lines ---------------------------------------------------------------------


async def test_killed_connections(world):
    """They cost a reconnect, and nobody notices."""
    client = world.client()
    lock = client.lock("a")
    for _ in range(3):
        async with lock:
            world.server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            world.server.command("CLIENT", "KILL", "TYPE", "pubsub")
    await world.until(lambda: world.holder("a") is None, "the release, on all nodes of a quorum")


@needs_no_server
async def test_no_socket_file(world, tmp_path):
    """The same for a Unix socket that is not there."""
    client = world.client(f"unix://{tmp_path}/none", server_timeout=30)
    error = await refused(client.lock("a"), ServerUnreachable)
    assert isinstance(error.__cause__, FileNotFoundError)


@pytest.mark.one_server
async def test_too_many_clients(world):
    """MAXCLIENTS, whose error comes instead of an answer to anything: unreachable, then well."""
    server = world.alone("--maxclients", "4")
    with contextlib.ExitStack() as lines:
        for _ in range(4):
            line = lines.enter_context(socket.socket(socket.AF_UNIX))
            line.connect(str(server.socket))
            line.sendall(b"PING\r\n")
            assert line.recv(7)
        error = await refused(
            world.client(server_timeout=0.4).lock("a"), ServerUnreachable, timeout=0.3
        )
        assert error.code in {"MAXCLIENTS", ""}
    async with world.client().lock("a", timeout=5):
        pass


# --- permissions ----------------------------------------------------------------------------------


@pytest.mark.one_server
async def test_no_password(world):
    """NOAUTH: denied, and told what to do."""
    server = world.server
    server.command("CONFIG", "SET", "requirepass", "x")
    try:
        client = world.client()
        await refused_everywhere(client, ServerDenied, "NOAUTH")
        assert "password" in str(await refused(client.lock("a"), PermissionError))
    finally:
        without_password(server, "x")


def without_password(server: Server, password: str) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(server.socket))
        line.sendall(f"AUTH {password}\r\nCONFIG SET requirepass ''\r\n".encode())
        assert line.recv(3) == b"+OK"
        while b"+OK" not in line.recv(100):
            pass


@pytest.mark.one_server
async def test_a_wrong_password_is_tried_once(world):
    """WRONGPASS: denied; asking again and again would lock the account."""
    server = world.alone()
    url = server.tcp_url.replace("redis://", "redis://default:wrong@")
    server.command("ACL", "SETUSER", "default", ">right")
    for way in ATTEMPTS.values():
        begun = hellos(server)
        error = await refused(world.client(url).lock("a"), ServerDenied, **way)
        assert error.code == "WRONGPASS"
        assert hellos(server) - begun == 1
        assert "wrong" not in str(world.client(url))


def hellos(server: Server) -> int:
    """Count greetings by a user who may."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(server.socket))
        line.sendall(b"AUTH right\r\nINFO commandstats\r\n")
        text = b""
        while b"cmdstat_auth" not in text:
            text += line.recv(65536)
        found = [part for part in text.decode().split("\r\n") if part.startswith("cmdstat_hello:")]
        return int(found[0].split("calls=")[1].split(",")[0]) if found else 0


@pytest.mark.one_server
@pytest.mark.parametrize(
    ("trouble", "rules"),
    {
        "command": ["~*", "&*", "+@all", "-evalsha", "-eval"],
        "key": ["~other:*", "&*", "+@all"],
        "command in a script": ["~*", "&*", "+@all", "-set"],
        "another command in a script": ["~*", "&*", "+@all", "-get"],
    }.items(),
)
async def test_a_permission_that_lacks(world, trouble, rules):
    """NOPERM: denied, also where the server tells it from inside a script."""
    server = world.alone()
    server.command("ACL", "SETUSER", "app", "reset", "on", ">x", *rules)
    client = world.client(server.tcp_url.replace("redis://", "redis://app:x@"))
    for way in ATTEMPTS.values():
        error = await refused(client.lock("a"), ServerDenied, **way)
        assert error.code == "NOPERM", trouble
    assert world.holder("a") is None


@pytest.mark.one_server
async def test_the_plain_form_needs_little(world):
    """Poll works for a user with SET and one script on one key, and no channel."""
    server = world.alone()
    rules = ["~t*", "resetchannels", "-@all", "+hello", "+auth", "+set", "+eval", "+evalsha"]
    rules += ["+get", "+del", "+pexpire"]
    server.command("ACL", "SETUSER", "app", "reset", "on", ">x", *rules)
    client = world.client(server.tcp_url.replace("redis://", "redis://app:x@"))
    error = await refused(client.lock("a", wait=Poll()), ServerDenied)
    # Before it holds what it could not renew. Redis 6.2 does not say which command it was.
    assert "pttl" in str(error) or "inside a script" in str(error)
    assert world.holder("a") is None
    server.command("ACL", "SETUSER", "app", "+pttl")
    async with client.lock("a", wait=Poll()) as lease:
        await lease.renew()
    assert world.holder("a") is None


# --- a server that cannot -------------------------------------------------------------------------


async def scripts_forgotten(world, lock):
    world.server.command("SCRIPT", "FLUSH")
    assert await lock.acquire()
    world.server.command("SCRIPT", "FLUSH")
    await lock.release()


async def refused_by_the_server(world, lock):
    world.server.command("RPUSH", world.key("a"), "x")
    world.foreign.add(world.key("a"))
    with contextlib.suppress(ServerUnsuitable):
        await lock.acquire()


async def lost_in_its_block(world, lock):
    with contextlib.suppress(LeaseLost):
        async with lock:
            world.server.command("DEL", world.key("a"))


TROUBLES = (scripts_forgotten, refused_by_the_server, lost_in_its_block)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
@pytest.mark.refcounts
async def test_an_error_lets_go_of_the_handle(world, trouble):
    """At once, not when Python's collector runs: a handle dropped while it holds is not renewed."""
    lock = world.client().lock("a")
    gone = weakref.ref(lock.inner if world.blocking else lock)
    gc.disable()
    try:
        await trouble(world, lock)
        del lock
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.one_server
async def test_forgotten_scripts(world):
    """NOSCRIPT: they are brought again, at any time."""
    client = world.client()
    holder, waiter = client.lock("a"), client.lock("a")
    for _ in range(2):
        world.server.command("SCRIPT", "FLUSH")
        await holder.acquire()
        world.server.command("SCRIPT", "FLUSH")
        job = world.start(waiter.acquire())
        await world.in_line("a", 1)
        world.server.command("SCRIPT", "FLUSH")
        await holder.release()
        await job.result()
        world.server.command("SCRIPT", "FLUSH")
        await waiter.lease.renew()
        world.server.command("SCRIPT", "FLUSH")
        await waiter.release()


@pytest.mark.one_server
async def test_a_turn_that_was_passed_on_is_released_without_memory(world):
    """Its release writes the fence that it used, which a server out of memory refused."""
    server, client = world.alone(), world.client(cohort=Cohort(seconds=60))
    holder, waiter = client.lock("a"), client.lock("a")
    await holder.acquire()
    job = world.start(waiter.acquire())
    await world.in_line("a", 1)
    server.command("CONFIG", "SET", "maxmemory", "1")
    await holder.release()
    assert await job.result() is True
    await waiter.release()
    assert server.command("EXISTS", world.key("a")) == 0


@pytest.mark.one_server
async def test_out_of_memory(world):
    """OOM: unsuitable; but who holds can renew and release, and the next in line gets it."""
    server = world.alone()
    client = world.client()
    holder, waiter, alone = client.lock("a"), client.lock("a"), client.lock("b")
    await holder.acquire()
    await alone.acquire()
    job = world.start(waiter.acquire())
    await world.in_line("a", 1)
    server.command("CONFIG", "SET", "maxmemory", "1")
    await refused_everywhere(world.client(key_prefix=f"{world.prefix}x"), ServerUnsuitable, "OOM")
    await holder.lease.renew()
    await holder.release()
    assert await job.result() is True
    await waiter.release()
    await alone.release()
    assert server.command("EXISTS", world.key("b")) == 0


@pytest.mark.one_server
async def test_a_replica(world):
    """READONLY: told as such, to be pointed at the master."""
    server = world.alone()
    server.command("REPLICAOF", "127.0.0.1", 1)
    await refused_everywhere(world.client(), ServerReadOnly, "READONLY")


@pytest.mark.one_server
@pytest.mark.slow
async def test_a_replica_without_its_master(world):
    """MASTERDOWN: it may be back in a moment; unreachable when it is not."""
    server = world.alone("--replica-serve-stale-data", "no")
    server.command("REPLICAOF", "127.0.0.1", 1)
    error = await refused(world.client().lock("a"), ServerUnreachable, timeout=0.2)
    assert error.code == "MASTERDOWN"
    server.command("REPLICAOF", "NO", "ONE")  # what is owed is given back


@pytest.mark.one_server
async def test_too_few_replicas(world):
    """NOREPLICAS: the master does not take writes now; the lease that was held says so as well."""
    server = world.alone()
    client = world.client(server_timeout=0.5)
    lock = client.lock("b", ttl=20)
    await lock.acquire()
    server.command("CONFIG", "SET", "min-replicas-to-write", "1")
    await refused_everywhere(client, ServerReadOnly, "NOREPLICAS")
    with pytest.raises(ServerReadOnly):
        await lock.release()
    server.command("CONFIG", "SET", "min-replicas-to-write", "0")


@pytest.mark.one_server
async def test_a_disk_that_fails(world):
    """MISCONF: the master refuses writes as it cannot save."""
    server = world.alone()
    (server.directory / "dump.rdb" / "x").mkdir(parents=True)  # nothing can be renamed onto it
    server.command("SET", "something", "to save")
    server.command("CONFIG", "SET", "save", "3600 1")
    server.command("BGSAVE")
    await world.until(lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err")
    await refused_everywhere(world.client(), ServerReadOnly, "MISCONF")


@pytest.mark.no_quorum  # each node has a line of its own
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lock", "semaphore"])
async def test_something_else_in_the_place_of_one_line_refuses_no_other(world, kind):
    """One heartbeat asks about both locks; the wait for the other goes on."""
    client, others = world.client(), world.client()

    def of(owner, name):
        return owner.lock(name) if kind == "lock" else owner.semaphore(name, 1)

    async def turn(name):
        async with of(client, name):
            return True

    held = {name: of(others, name) for name in ("broken", "sound")}
    waits = {}
    for name, handle in held.items():
        assert await handle.acquire()
        waits[name] = world.start(turn(name))
        await world.in_line(name, 1)
    queue = world.keys("broken").grant[2]
    world.server.command("DEL", queue)
    world.server.command("SET", queue, "something else", "PX", 60_000)
    with pytest.raises(ServerUnsuitable, match="'broken'"):
        await waits["broken"].result()
    world.server.command("DEL", queue)
    for handle in held.values():
        await handle.release()
    assert await waits["sound"].result()


@pytest.mark.no_quorum  # it has no plain form
async def test_something_else_at_the_key_of_the_plain_form(world):
    """SET NX alone cannot tell a list from a lock: when time is up, the error must."""
    world.server.command("LPUSH", world.key("a"), "x")
    world.server.command("PEXPIRE", world.key("a"), 60_000)
    lock = world.client().lock("a", wait=Poll(interval=0.01, max_tries=2))
    for how in ({"blocking": False}, {}, {"timeout": 0.1}):
        error = await refused(lock, ServerUnsuitable, **how)
        assert error.code == "WRONGTYPE"


# --- what only a stand-in can say -----------------------------------------------------------------


class StandIn:
    """A server made of a thread: one fixed answer to each command, on every connection."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = answers
        self._line = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._line.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._line.accept()
                self.connections += 1
                with line:
                    for answer in self._answers:
                        line.recv(65536)
                        line.sendall(answer)
                    while line.recv(65536):
                        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()


HELLO = b"%2\r\n+server\r\n+redis\r\n+version\r\n+"
STRANGE = {
    "no HELLO": (b"-ERR unknown command `HELLO`, with args beginning with: `3`\r\n", "NOPROTO"),
    "no RESP3": (b"-NOPROTO unsupported protocol version\r\n", "NOPROTO"),
    "6.0": (HELLO + b"6.0.16\r\n", ""),
}


@needs_no_server
@pytest.mark.parametrize(("answer", "code"), STRANGE.values(), ids=STRANGE)
async def test_a_server_that_is_too_old(world, answer, code):
    """Unsuitable, and told which are not."""
    with StandIn(answer) as server:
        error = await refused(world.client(server.url).lock("a"), ServerUnsuitable)
        assert error.code == code
        assert "too old" in str(error)


@needs_no_server
async def test_an_error_that_nobody_knows(world):
    """A ServerError with the server's own words."""
    with StandIn(HELLO + b"7.0.0\r\n", b"-FANCY what is this\r\n") as server:
        client = world.client(server.url, server_timeout=0.3)
        error = await refused(client.lock("a"), ServerError, blocking=False)
        assert type(error) is ServerError
        assert (error.code, "what is this" in str(error)) == ("FANCY", True)
    world.cleans_up = True


@needs_no_server
async def test_something_that_is_no_server_at_all(world):
    """A web server, say: unreachable, not a hang and not a stray exception."""
    with StandIn(b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        client = world.client(server.url, server_timeout=0.3)
        await refused(client.lock("a"), ServerUnreachable, timeout=0.5)


# --- afterwards -----------------------------------------------------------------------------------


async def test_a_closed_client(world):
    """What it held is not renewed; asking again is an error of its own: "later" would not help."""
    client = world.client()
    lock = client.lock("a", ttl=20)
    await lock.acquire()
    await client.aclose()
    for way in ATTEMPTS.values():
        error = await refused(client.lock("b"), ClientClosed, **way)
        assert not isinstance(error, (ServerError, OSError))
        assert (error.name, "closed" in str(error)) == ("b", True)
    with pytest.raises(ClientClosed, match="'b'"):
        await client.lock("b").locked()
    with pytest.raises((ClientClosed, LeaseLost)):
        await lock.release()
    await client.aclose()


# --- what an error says ---------------------------------------------------------------------------

UNREACHABLE = "redis://app:sesame@127.0.0.1:1/0"
ASKED = {
    "acquire": lambda client, name: client.lock(name).acquire(),
    "poll": lambda client, name: client.lock(name, wait=Poll()).acquire(timeout=1),
    "try": lambda client, name: client.lock(name).acquire(blocking=False),
    "locked": lambda client, name: client.lock(name).locked(),
    "rlock": lambda client, name: client.rlock(name, owner="me").release(),
    "semaphore": lambda client, name: client.semaphore(name, limit=2).acquire(),
    "available": lambda client, name: client.semaphore(name, limit=2).available(),
    "full": lambda client, name: client.semaphore(name, limit=2).locked(),
    "reader": lambda client, name: client.rwlock(name).read.acquire(),
    "read": lambda client, name: client.rwlock(name).read.locked(),
    "multi": lambda client, name: client.multi([name]).acquire(),
    "set": lambda client, name: client.event(name).set(),
    "wait": lambda client, name: client.event(name).wait(1),
    "latch": lambda client, name: client.latch(name, count=2).count_down(),
    "barrier": lambda client, name: client.barrier(name, parties=2).wait(1),
    "abort": lambda client, name: client.barrier(name, parties=2).abort(),
    "campaign": lambda client, name: client.election(name).campaign(),
    "leader": lambda client, name: client.election(name).leader(),
    "once": lambda client, name: client.once(name, within=60).outcome(),
}
LOCKS = {"acquire", "try", "locked"}


@needs_no_server
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
async def test_an_error_names_what_was_asked_and_where(world, caplog, ask):
    """Once each, with no password; in a few lines, and raised, not logged as well."""
    caplog.set_level("INFO", logger="fencelock")
    client = world.client(UNREACHABLE, server_timeout=0.3)
    with pytest.raises(ServerUnreachable) as raised:
        await ask(client, "orders:42")
    error = raised.value
    assert_says_once(error, "orders:42", "redis://app@127.0.0.1:1/0")
    assert caplog.records == []
    assert error.code == "REFUSED"


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(ASKED[way], id=way, marks=() if way in LOCKS else pytest.mark.no_quorum)
        for way in ASKED
        if way not in {"once", "rlock"}  # a key of its own; a release by who holds nothing there
    ],
)
async def test_something_else_at_the_key(world, ask):
    """WRONGTYPE: unsuitable, for ever; never "held", and what is there is left alone."""
    world.server.command("HSET", world.key("a"), "x", "y")
    world.server.command("PEXPIRE", world.key("a"), 60_000)
    with pytest.raises(ServerUnsuitable) as raised:
        await ask(world.client(), "a")
    error = raised.value
    assert (error.code, error.name, str(error).count("'a'")) == ("WRONGTYPE", "a", 1)
    assert error.server in str(error)
    assert "key_prefix" in str(error) or "another kind of object" in str(error)
    assert world.server.command("HGETALL", world.key("a")) == ["x", "y"]


def assert_says_once(error, name, server):
    """See that an error names both once in its words, and shows few frames of ours."""
    text = str(error)
    assert (text.count(repr(name)), text.count(server)) == (1, 1), text
    assert (error.name, error.server) == (name, server) or "," in error.name
    shown = "".join(traceback.format_exception(error))
    assert "sesame" not in shown
    ours = [line for line in shown.splitlines() if "/fencelock/" in line]
    assert len(ours) <= 8, shown


@pytest.mark.one_server
@pytest.mark.slow
@pytest.mark.prompt
async def test_silence_names_what_was_asked_and_where(world):
    """A server that is frozen, for connections that are new, and for one that was in use."""
    server = world.alone()
    client = world.client(server.tcp_url, server_timeout=0.3)
    used, fresh = client.lock("a"), world.client(server.tcp_url, server_timeout=0.3).lock("b")
    await used.acquire()
    await used.release()
    server.pause()
    try:
        for lock, ways in ((used, ATTEMPTS.values()), (fresh, ATTEMPTS.values())):
            for way in ways:
                error = await refused(lock, SILENT, **way)
                assert_says_once(error, lock.name, server.tcp_url)
                assert str(error).count("no answer") <= 1
    finally:
        server.resume()


async def entered(context):
    async with context:
        raise AssertionError("it was entered")


async def timed_out(client, _world):
    async with client.lock("a"):
        await entered(client.lock("a", timeout=0.05))


async def not_in_one_try(client, _world):
    async with client.lock("a"):
        await entered(client.lock("a", wait=Poll(max_tries=1)))


async def several_timed_out(client, _world):
    async with client.lock("a"):
        await entered(client.multi(["a", "b"], timeout=0.05))


async def locked_twice(client, _world):
    lock = client.lock("a", strict=True)
    async with lock:
        await lock.acquire()


async def reads_and_writes(client, _world):
    both = client.rwlock("a")
    async with both.read:
        await both.write.acquire()


async def called_within_itself(client, _world):
    @client.locked("a", on_busy="raise")
    async def work():
        await work()

    await work()


async def not_done(client, _world):
    async with client.lock("a"):
        await client.once("a", within=60, wait=True, timeout=0.05).run(nothing)


async def nothing():
    """Do nothing."""


async def released_twice(client, _world):
    await client.lock("a").release()


async def too_many_permits(client, _world):
    await client.bounded_semaphore("a", 2).release()


async def resigned_twice(client, _world):
    await client.election("a").hand_over("other")


async def checked_after_release(client, _world):
    async with client.lock("a") as lease:
        pass
    lease.check()


async def renewed_after_release(client, _world):
    async with client.lock("a") as lease:
        pass
    await lease.renew()


async def taken_at_renewal(client, world):
    lock = client.lock("a")
    with contextlib.suppress(LeaseLost):  # the end of the block finds it, too
        async with lock as lease:
            world.server.command("SET", world.key("a"), "another", "PX", 20_000)
            with pytest.raises(LeaseLost) as lost:
                await lease.renew()
    raise lost.value


async def taken_at_release(client, world):
    async with client.lock("a"):
        world.server.command("SET", world.key("a"), "another", "PX", 20_000)


async def taken_and_checked(client, world):
    with contextlib.suppress(LeaseLost):
        async with client.lock("a") as lease:
            world.server.command("SET", world.key("a"), "another", "PX", 20_000)
    lease.check()


async def broken(client, _world):
    await client.barrier("a", parties=2).wait(0.05)


HELD = {
    AcquireTimeout: (timed_out, several_timed_out, not_done),
    NotAcquired: (not_in_one_try, locked_twice, reads_and_writes, called_within_itself),
    NotHeld: (
        *(released_twice, too_many_permits, resigned_twice),
        *(checked_after_release, renewed_after_release),
    ),
    LeaseLost: (taken_at_renewal, taken_at_release, taken_and_checked),
    BarrierBroken: (broken,),
}
ANYWHERE = {timed_out, locked_twice, released_twice, *HELD[LeaseLost]}


@pytest.mark.parametrize(
    ("kind", "provoke"),
    [
        pytest.param(
            kind, each, id=each.__name__, marks=() if each in ANYWHERE else pytest.mark.no_quorum
        )
        for kind, ways in HELD.items()
        for each in ways
    ],
)
async def test_an_error_about_who_holds_names_the_lock_and_the_server(world, kind, provoke):
    """Once each, as an error about the server does."""
    client = world.client()
    with pytest.raises(kind) as raised:
        await provoke(client, world)
    error = raised.value
    assert error.server
    assert error.server in repr(client)
    text = str(error)
    assert (text.count("'a'"), text.count(error.server)) == (1, 1), text
    assert error.name == ("" if "several" in provoke.__name__ else "a")
    named = provoke in HELD[AcquireTimeout]
    assert fields_of(error, named=named) == FIELDS.get(provoke, {})


# What an error about who holds carries beside the name and the server.
FIELDS = {
    taken_at_renewal: {"reason": "taken", "detail": "the server has another holder"},
    taken_at_release: {"reason": "taken", "detail": "the server has another holder"},
    taken_and_checked: {"reason": "taken", "detail": "the server has another holder"},
    broken: {"reason": "timeout"},
}


def fields_of(error, *, named):
    """Return the fields of an error; those that are numbers must be numbers of now.

    If the holder is to be ``named``, that is this process.
    """
    found = {key: value for key, value in vars(error).items() if not key.startswith("_")}
    assert found.pop("name") == error.name
    assert found.pop("server") == error.server
    if isinstance(error, NotAcquired):
        held_by = found.pop("held_by")
        assert (held_by and held_by.pid) == (os.getpid() if named else None)
    if isinstance(error, LeaseLost):
        assert 0 <= now() - found.pop("since") < 30
        assert abs(found.pop("fence") / 1e6 - time.time()) < 60, "not the server's time in us"
    return found


async def test_an_error_in_a_handler_still_shows_what_was_handled(world):
    """Only what the message says already is cut off."""
    client = world.client()
    lock = client.lock("a")
    await client.aclose()

    async def handles() -> None:
        try:
            raise LookupError("the caller's own")
        except LookupError:
            await lock.acquire()

    with pytest.raises(ClientClosed) as raised:
        await handles()
    assert isinstance(raised.value.__context__, LookupError)
    assert raised.value.__suppress_context__ is False
