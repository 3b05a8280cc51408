"""Connections that are slow, or many, keep nobody else from the dashboard."""

import contextlib
import socket
import threading
import urllib.request

import pytest

import fencelock
from fencelock.dashboard.access import Access
from tests.integrations.conftest import PATIENCE
from tests.integrations.dashboard.conftest import TOKEN, until

pytest.importorskip("starlette")
uvicorn = pytest.importorskip("uvicorn")

from fencelock.dashboard import _connections as connections  # noqa: E402 - it needs the frameworks
from fencelock.dashboard.app import ServerSource, make_app  # noqa: E402 - likewise

HEAD = b"GET /api/board HTTP/1.1\r\nHost: 127.0.0.1\r\n"
WHOLE = b"GET /assets/app.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
BODY = b"POST /api/revoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
BODY += b"Authorization: Bearer %b\r\nContent-Length: 90\r\n\r\n{" % TOKEN.encode()


@pytest.fixture
def port(server):
    """Lend the port of a dashboard that runs in a thread."""
    with fencelock.Client(server.url) as client:
        app = make_app(ServerSource(client), Access(token=TOKEN), "0", lambda _: None)
        config = uvicorn.Config(
            app, http=connections.BoundedConnection, log_config=None, ws="none", lifespan="off"
        )
        running, listener = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        yield listener.getsockname()[1]
        running.should_exit = True
        thread.join(PATIENCE)
        listener.close()


def metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        return answer.status


def opened(port, sent, host="127.0.0.1"):
    line = socket.create_connection(("127.0.0.1", port), PATIENCE, source_address=(host, 0))
    line.sendall(sent)
    return line


def is_closed(line):
    """Return True if the connection has ended; what came is thrown away."""
    line.settimeout(0.01)
    try:
        return not line.recv(65536)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 1.0)


@pytest.mark.parametrize("sent", [b"", HEAD, BODY])
def test_a_request_that_does_not_end_is_ended(port, hurried, sent):
    with opened(port, sent) as line:
        until(lambda: is_closed(line))


def test_who_takes_no_answer_is_ended(port, hurried):
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(("127.0.0.1", port))
        line.settimeout(0.01)
        until(lambda: is_reset(line))


def is_reset(line):
    """Ask for more, without reading; return True if that is refused."""
    try:
        line.send(WHOLE * 500)
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return False


def test_many_connections_of_one_address_give_way_to_new_ones(run):
    dashboard = run()
    port = int(dashboard.url.rstrip("/").rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(opened(port, HEAD))
        assert metrics(port) == 200


def test_the_address_that_has_most_connections_gives_way(port, monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 6)
    with contextlib.ExitStack() as stack:
        few = [stack.enter_context(opened(port, HEAD, "127.0.0.2")) for _ in range(2)]
        many = [stack.enter_context(opened(port, HEAD, "127.0.0.3")) for _ in range(5)]
        until(lambda: is_closed(many[0]))
        other = stack.enter_context(opened(port, HEAD, "127.0.0.4"))
        until(lambda: is_closed(many[1]))
        assert not any(is_closed(each) for each in (*few, *many[2:], other))
