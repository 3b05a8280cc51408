"""A resolver or a credential provider that takes its time holds up nothing of ours (I8, I13)."""

import contextlib
import socket
import threading

import pytest
import redis
import redis.asyncio
from redis.credentials import CredentialProvider

from fencelock import LeaseLost, OutcomeUnknown, ServerError
from fencelock._runtime.clock import now
from tests.faults.test_timeouts import TIMEOUT, allowed_seconds, measured
from tests.faults.world import Tasks, outcome, spawn, wait_until
from tests.waiting import machine_seconds

pytestmark = pytest.mark.one_face

HOST = "somewhere.test"
SLOW = 30.0


class Resolver:
    """Knows one name; it is silent while ``answers`` is clear."""

    def __init__(self, port):
        self.answers = threading.Event()
        self.asked = 0
        self._port = port
        self._real = socket.getaddrinfo

    def __call__(self, host, port, *args, **options):
        if host not in {HOST, HOST.encode()} or options.get("flags", 0):
            return self._real(host, port, *args, **options)
        self.asked += 1
        self.answers.wait(SLOW)
        return self._real("127.0.0.1", self._port, *args, **options)


@pytest.fixture
def resolver(server, monkeypatch):
    resolver = Resolver(server.port)
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    yield resolver
    resolver.answers.set()
    wait_until(lambda: not threads("fencelock-resolver"), what="no thread is left")


def threads(name):
    return [each for each in threading.enumerate() if each.name == name]


def test_a_silent_resolver(connect, resolver, name, view):
    """Timeouts hold, and however often it is asked, one thread waits for it."""
    lock = connect(f"redis://{HOST}:1", server_timeout=TIMEOUT).lock(name)
    measured(lambda: lock.acquire(timeout=TIMEOUT))
    measured(lambda: lock.acquire(blocking=False))
    assert len(threads("fencelock-resolver")) == 1
    resolver.answers.set()
    assert lock.acquire(timeout=20)
    lock.release()
    view.until_free()


def test_a_resolver_that_turns_silent_delays_no_loss(connect, resolver, proxy, name):
    """I8: the holder is notified in time, though the renewal needs a new connection."""
    resolver._port = proxy.port
    resolver.answers.set()
    told = []
    client = connect(f"redis://{HOST}:1")
    lock = client.lock(name, ttl=1.5, on_lost=lambda lease: told.append((lease, now())))
    assert lock.acquire()
    lease = lock.lease
    resolver.answers.clear()
    proxy.drop_all()
    wait_until(lambda: told, 6, "the loss is told")
    assert told[0][1] < lease.deadline + allowed_seconds()
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_host_whose_first_address_is_silent(connect, server, name, view, monkeypatch):
    """The next address is tried while there is time."""
    with contextlib.ExitStack() as open_:
        full = open_.enter_context(socket.create_server(("127.0.0.9", server.port), backlog=0))
        first = socket.socket()
        for line in (first, socket.socket()):
            open_.enter_context(line)
            line.setblocking(False)
            line.connect_ex(full.getsockname())
        addresses = [full.getsockname(), ("127.0.0.1", server.port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each) for each in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        lock = connect(f"redis://several.test:{server.port}").lock(name)
        assert lock.acquire(timeout=8)
        lock.release()
    view.until_free()


class Provider(CredentialProvider):
    """Says who we are, when ``answers`` is set."""

    def __init__(self):
        self.answers = threading.Event()

    def get_credentials(self):
        self.answers.wait(SLOW)
        return "default", "right"


def test_a_slow_credential_provider(face, connect, own_server, name):
    """Timeouts hold, other tasks go on, and what connects late leaves no connection behind."""
    own_server.command("CONFIG", "SET", "requirepass", "right")
    provider = Provider()
    kind = redis.asyncio.Redis if face is Tasks else redis.Redis
    theirs = kind(host="127.0.0.1", port=own_server.port, credential_provider=provider)
    client = connect(theirs, server_timeout=TIMEOUT)
    lock = client.lock(name)
    try:
        measured(lambda: lock.acquire(timeout=TIMEOUT))
        if face is Tasks:
            waiting = spawn(outcome, lock.acquire, timeout=2)
            begun = now()
            client.run(turn())
            assert now() - begun < machine_seconds(), "the loop stood still"
            assert isinstance(waiting.result(20)[0], (OutcomeUnknown, ServerError))
    finally:
        provider.answers.set()
    assert lock.acquire(timeout=20)
    lock.release()
    wait_until(lambda: not threads("fencelock-dial"), what="no thread is left")


async def turn():
    """Do nothing in a turn of the loop."""
