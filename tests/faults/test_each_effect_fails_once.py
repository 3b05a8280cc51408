"""Each effect of the real ports fails once: an error says what, and nothing stays (I9, I10).

Connections are dialled, greeted, written to, read from, subscribed and closed; threads are started.
What fails once and may be tried again is tried again; what the server refuses is an error of its
type, that names the lock and the server.
"""

import threading

import pytest

from fencelock import ServerDenied, ServerReadOnly, ServerUnreachable, ServerUnsuitable
from tests.faults.world import held, outcome, spawn, wait_until
from tests.threads.state import connections

pytestmark = pytest.mark.one_face

GRANTED = True
LOST = {"then": "rst"}
# The effect: the operation, what happens to it, and what acquire gives.
ACQUIRING = {
    "greeting is not answered": ("hello", "drop_reply", LOST, GRANTED),
    "greeting is not now": ("hello", "error", {"text": "LOADING it loads"}, GRANTED),
    "AUTH is refused": ("hello", "error", {"text": "WRONGPASS invalid"}, ServerDenied),
    "HELLO is unknown": ("hello", "error", {"text": "NOPROTO no"}, ServerUnsuitable),
    "request is lost": ("acquire", "drop_request", LOST, GRANTED),
    "connection ends at the request": ("acquire", "drop_request", {"then": "close"}, GRANTED),
    "answer is lost": ("acquire", "drop_reply", LOST, GRANTED),
    "connection ends before the answer": ("acquire", "drop_reply", {"then": "close"}, GRANTED),
    "memory is full": ("acquire", "error", {"text": "OOM command not allowed"}, ServerUnsuitable),
    "right is missing": ("acquire", "error", {"text": "NOPERM no permissions"}, ServerDenied),
    "server may not write": ("acquire", "error", {"text": "READONLY replica"}, GRANTED),
    "server is busy": ("acquire", "error", {"text": "BUSY with a script"}, GRANTED),
    "script is unknown": ("acquire", "error", {"text": "NOSCRIPT none"}, GRANTED),
}
WAITING = {
    "subscription is not answered": ("subscribe", "drop_reply", LOST, GRANTED),
    "subscription is lost": ("subscribe", "drop_request", LOST, GRANTED),
    "channel is refused": ("subscribe", "error", {"text": "NOPERM no channel"}, ServerDenied),
    "place in line is not answered": ("acquire", "drop_reply", LOST, GRANTED),
}
RELEASING = {
    "release is lost": ("release", "drop_request", LOST, None),
    "answer to the release is lost": ("release", "drop_reply", LOST, None),
    "release is refused": ("release", "error", {"text": "NOREPLICAS few"}, ServerReadOnly),
}


def assert_told(result, wanted, view):
    """See that a call gave what it should, and that an error says of what and where."""
    if isinstance(wanted, type):
        assert isinstance(result, wanted), result
        assert (result.name, str(result).count(repr(view.name))) == (view.name, 1)
        assert result.server
    else:
        assert result == wanted


@pytest.fixture(autouse=True)
def _others():
    """Note the threads of clients that tests before left to the collector."""
    others.clear()
    others.update(threading.enumerate())


others = set()


def ours():
    running = set(threading.enumerate()) - others
    return [each for each in running if each.name.startswith("fencelock-")]


def assert_nothing_stays(client, view):
    """The lock is free and can be had; closed, the client has no connection and no thread."""
    view.until_free()
    again = client.lock(view.name, ttl=60)
    assert again.acquire(timeout=10) is True
    again.release()
    view.until_free()
    client.close()
    wait_until(lambda: not connections(view.server), what="no connection is left")
    wait_until(lambda: not ours(), what="no thread is left")


@pytest.mark.parametrize("effect", (ACQUIRING | RELEASING).values(), ids=ACQUIRING | RELEASING)
def test_an_effect_of_a_turn_fails_once(connect, proxy, view, effect):
    operation, action, how, wanted = effect
    client = connect(proxy.url)
    # A refused release leaves it to its ttl.
    lock = client.lock(view.name, ttl=4 if wanted is ServerReadOnly else 60)
    releases = operation == "release"
    assert not releases or lock.acquire()
    fault = proxy.on(operation, action, **how)
    result, _ = outcome(lock.release) if releases else outcome(lock.acquire, timeout=5)
    fault.wait()
    assert_told(result, wanted, view)
    if result is True:
        lock.release()
    assert_nothing_stays(client, view)


@pytest.mark.parametrize("effect", WAITING.values(), ids=WAITING)
def test_an_effect_of_waiting_fails_once(connect, proxy, view, effect):
    operation, action, how, wanted = effect
    client = connect(proxy.url)
    lock = client.lock(view.name, ttl=60)
    with held(view):
        fault = proxy.on(operation, action, **how)
        ending = spawn(outcome, lock.acquire, timeout=9)
        fault.wait()
        if wanted is GRANTED:
            view.until_waiting(1)
    result, _ = ending.result(20)
    assert_told(result, wanted, view)
    if result is True:
        lock.release()
    assert_nothing_stays(client, view)


@pytest.mark.parametrize("how", ["refuse", "blackhole"])
def test_a_dial_fails(connect, proxy, view, how):
    client = connect(proxy.url, server_timeout=0.5)
    proxy.new_connections = how
    result, _ = outcome(client.lock(view.name).acquire)
    assert_told(result, ServerUnreachable, view)
    proxy.new_connections = "pass"
    proxy.drop_all()
    assert_nothing_stays(client, view)


def test_a_server_without_tls_is_asked_with_it(connect, server, view):
    client = connect(server.tcp_url.replace("redis://", "rediss://"), server_timeout=0.5)
    result, _ = outcome(client.lock(view.name).acquire)
    assert_told(result, ServerUnreachable, view)
    client.close()
    wait_until(lambda: not connections(server), what="no connection is left")


def test_no_thread_can_be_started_for_a_name(connect, server, view, monkeypatch):
    """It is resolved in the thread that asks."""
    start, refused = threading.Thread.start, []

    def starts(thread):
        if thread.name == "fencelock-resolver":
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)
    client = connect(server.tcp_url.replace("127.0.0.1", "localhost"))
    lock = client.lock(view.name, ttl=60)
    assert lock.acquire(timeout=5)
    lock.release()
    assert refused
    assert_nothing_stays(client, view)
