"""Workers of uvicorn that lead, hold locks for requests, lose them and are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import fencelock
from tests.servers import Server, reserve
from tests.waiting import until

httpx = pytest.importorskip("httpx")
for _name in ("uvicorn", "fastapi"):
    pytest.importorskip(_name)

SOON = 30
HERE = Path(__file__).parent


class Fleet:
    """Some workers of one application."""

    def __init__(self, server: Server, folder: Path, *, workers: int, **more: str) -> None:
        self.said = folder / "said"
        self.said.write_text("")
        self.server = server
        # Kept as long as the workers, which may listen there: no other program is given the port.
        self._reserved = reserve()
        self.port = self._reserved.getsockname()[1]
        words = ["-m", "uvicorn", "app:app", "--port", str(self.port), "--workers", str(workers)]
        self.process = subprocess.Popen(
            [sys.executable, *words, "--log-level", "warning"],
            cwd=HERE,
            env=os.environ | {"FENCELOCK_URL": server.url, "SAID": str(self.said)} | more,
            start_new_session=True,
        )
        until(self.answers, "the workers answer", SOON)

    def answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return self.get("/pid").status_code == 200
        return False

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def get(self, path: str, seconds: float = SOON) -> httpx.Response:
        return httpx.get(self.url(path), timeout=seconds)

    def lines(self, first: str) -> list[list[str]]:
        found = [line for line in self.said.read_text().splitlines() if line.startswith(first)]
        return [line.removeprefix(first).split() for line in found]

    def leaders(self, number: int) -> list[list[str]]:
        return until(
            lambda: (found := self.lines("leads"))[: len(found) * (len(found) >= number)],
            f"{number} leaders",
            SOON,
        )

    def leave(self, path: str) -> None:
        """Send a request, and go away while it is handled."""
        with socket.create_connection(("127.0.0.1", self.port), SOON) as line:
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            until(lambda: self.lines("began"), "it is handled", SOON)

    def go(self) -> None:
        """Let the handlers end."""
        with fencelock.Client(self.server.url) as client:
            client.event("go").set()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reserved.close()


@pytest.fixture
def fleet(server, tmp_path):
    """Start workers; all are killed at the end."""
    started = []

    def start(workers: int = 2, **more: str) -> Fleet:
        server.flushall()
        started.append(Fleet(server, tmp_path, workers=workers, **more))
        return started[-1]

    yield start
    for each in started:
        each.close()


def holder(server, name):
    return server.command("GET", f"fencelock:{name}")


# --- Leading --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_worker_leads_and_another_when_that_is_killed(fleet):
    workers = fleet(3)
    ((pid, fence),) = workers.leaders(1)
    os.kill(int(pid), signal.SIGKILL)
    _, (other, later) = workers.leaders(2)
    assert other != pid
    assert int(later) > int(fence)


@pytest.mark.slow
def test_at_shutdown_the_task_ends_and_the_leadership_is_given_up(fleet, server):
    workers = fleet(2)
    workers.leaders(1)
    os.kill(workers.process.pid, signal.SIGTERM)
    workers.process.wait(SOON)
    # One after the other ends; who led ended its task before it resigned.
    assert len(workers.lines("cancelled")) == len(workers.lines("leads")) >= 1
    assert all(lost == "False" for _, lost in workers.lines("cancelled"))
    assert holder(server, "jobs") is None


# --- requests -------------------------------------------------------------------------------------


@pytest.fixture
def beside():
    """Send requests beside the test."""
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/orders/7", "/plain?id=7"])
def test_a_request_holds_its_lock_and_another_is_refused(fleet, beside, server, path):
    workers = fleet(2)
    first = beside.submit(workers.get, path)
    until(lambda: workers.lines("began"), "the first request is handled", SOON)

    refused = workers.get("/orders/7")
    assert refused.status_code == 409
    assert refused.headers["retry-after"] == "2"
    assert refused.json()["detail"]["error"] == "busy"
    assert refused.json()["detail"]["held_for"] >= 0
    locked = httpx.post(workers.url("/upload/7"), content=b"x" * 100_000)
    assert (locked.status_code, locked.headers["retry-after"]) == (423, "1")
    other = httpx.post(workers.url("/upload/8"), content=b"x" * 100_000)
    assert other.json()["bytes"] == 100_000

    workers.go()
    assert first.result().status_code == 200
    until(lambda: holder(server, "order:7") is None, "it is released", SOON)
    assert workers.get("/orders/7").status_code == 200


@pytest.mark.slow
def test_a_client_that_goes_away_cancels_its_request(fleet, server):
    """With the middleware; the lock is free at once."""
    workers = fleet(2, CANCELS="1")
    workers.leave("/orders/7")
    until(lambda: workers.lines("handler cancelled"), "the handler is cancelled", SOON)
    until(lambda: holder(server, "order:7") is None, "it is released", SOON)
    assert not workers.lines("done")
    big = httpx.post(workers.url("/upload/7"), content=b"x" * 1_000_000)
    assert big.json()["bytes"] == 1_000_000
    workers.go()
    assert workers.get("/orders/7").status_code == 200
