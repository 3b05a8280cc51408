"""A server, a client of it, and the dashboard over both."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import fencelock
from fencelock.dashboard.access import Access
from tests import waiting
from tests.integrations.conftest import PATIENCE
from tests.patience import patient  # noqa: F401 - pytest finds the fixture here

TOKEN = "the-token-for-revoking-locks"
READ_TOKEN = "the-token-for-reading-only"
OWN = "http://127.0.0.1:8321"
# A cycle that no client looks for stays as long as a test looks at it.
STUCK = {"deadlock_after": None}


@pytest.fixture
def client(server):
    with fencelock.Client(server.url, label="shop") as client:
        yield client


@pytest.fixture
def make_http(server):
    """Lend what makes a client of a dashboard, which runs in this process."""
    # These need the frameworks, without which the tests are skipped.
    app = importlib.import_module("fencelock.dashboard.app")
    testclient = importlib.import_module("starlette.testclient")
    with contextlib.ExitStack() as stack:

        def make(url=server.url, notes=None, **access):
            notes = [] if notes is None else notes
            looks = stack.enter_context(fencelock.Client(url, server_timeout=8))
            made = app.make_app(app.ServerSource(looks), Access(**access), "0", notes.append)
            return stack.enter_context(testclient.TestClient(made, base_url=OWN))

        yield make


@pytest.fixture
def http(make_http):
    return make_http(token=TOKEN)


@pytest.fixture
def waiter(server):
    """Lend what starts a thread, with a client of its own, that waits for a lock."""
    clients, threads, end = [], [], threading.Event()

    def start(name, label="cart", held=None, meet=None, **options):
        client = fencelock.Client(server.url, label=label, **options)
        clients.append(client)
        args = client, held, name, meet, end
        threads.append(threading.Thread(target=_wait, args=args, name=f"{label}, for {name}"))
        threads[-1].start()
        return client

    yield start
    end.set()
    for client in clients:
        client.close()
    for thread in threads:
        thread.join(PATIENCE)


def _wait(client, held, name, meet, end):
    """Take a lock, if one is given, and wait for another; keep both until the end.

    ``meet``: when all that meet there have the one, they wait for the other.
    """
    locks = [client.lock(each) for each in (held, name) if each is not None]
    with contextlib.suppress(fencelock.FencelockError, ValueError):
        for lock in locks:
            if lock is locks[-1] and meet is not None:
                meet.wait(PATIENCE)
            lock.acquire()
        end.wait()
    for lock in locks:
        with contextlib.suppress(fencelock.FencelockError, ValueError):
            lock.release()


@pytest.fixture
def cycle(waiter):
    """Lend what makes clients that hold one lock each and wait for the next one."""

    def start(*names):
        meet = threading.Barrier(len(names))
        for place, name in enumerate(names):
            then = names[(place + 1) % len(names)]
            waiter(then, held=name, label="transfer", meet=meet, **STUCK)

    return start


def until(holds):
    """Return what a question answers as soon as that is true."""
    return waiting.until(holds, "the answer", PATIENCE, tick=0.02)


# --- the command ----------------------------------------------------------------------------------


class Running:
    """A dashboard that was started as a shell starts it."""

    def __init__(self, url, *args, **environment):
        words = [sys.executable, "-m", "fencelock", "dashboard", "--port", "0", "--json"]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("FENCELOCK_")}
        self._errors = []
        self.process = subprocess.Popen(
            [*words, *(["--url", url] if url else []), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=kept | environment,
        )
        told = json.loads(self.process.stdout.readline() or "null")
        if told is None:
            raise AssertionError(self.process.communicate()[1])
        self.url, self.token = told["url"], told["token"]
        self._reader = threading.Thread(target=self._errors.extend, args=(self.process.stderr,))
        self._reader.start()

    def stop(self, number=signal.SIGINT):
        """End it; return its exit status and what it printed on stderr."""
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.returncode, "".join(self._errors)

    def close(self):
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)


@pytest.fixture
def run(server):
    """Lend what starts ``fencelock dashboard``."""
    with contextlib.ExitStack() as stack:

        def start(*args, url=server.url, **environment):
            return stack.enter_context(contextlib.closing(Running(url, *args, **environment)))

        yield start


@pytest.fixture
def pictures(tmp_path):
    """Lend the folder for screenshots: docs/images/dashboard if FENCELOCK_SCREENSHOTS says so."""
    if not os.environ.get("FENCELOCK_SCREENSHOTS"):
        return tmp_path
    folder = Path(__file__).resolve().parents[3] / "docs" / "images" / "dashboard"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
