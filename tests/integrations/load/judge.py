"""More requests than threads, over a few names; one process is killed; a referee judges.

The referee is the file of work.py. A test says how its workers start.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import fencelock
from tests import waiting
from tests.integrations.load.work import HELD, PATIENCE, TTL
from tests.integrations.recipes.page import Place
from tests.test_docs import ROOT

NAMES = "a", "b", "c"
AT_ONCE = 24
MODULES = "tests.integrations.load"


class OverSocket(http.client.HTTPConnection):
    """HTTP over a Unix socket: no port is needed."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)  # without a time limit it waits where the backlog is full
        self.sock.settimeout(PATIENCE)


class Load:
    """One load on the workers of one framework."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.web = place.path / "web"
        self.numbers: range = range(0)
        self.answers: dict[int, int | None] = {}  # the status of each request; None: it was cut off
        place.environment["LOAD_FOLDER"] = str(place.path)
        place.environment["PYTHONPATH"] = os.pathsep.join([str(place.path), str(ROOT)])
        place.environment["C_FORCE_ROOT"] = "1"  # Celery's

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        return self.place.start(*command)

    @contextlib.contextmanager
    def requests(self, many: int, *kinds: str) -> Iterator[None]:
        """Send requests while the body runs, to the kinds of handlers by turns."""
        waiting.until(self._serves, f"it serves: {self._output()}", 40, tick=0.05)
        self.numbers = range(many)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(self._request, self.numbers, (many * kinds)[:many])
            yield
            self.answers = dict(zip(self.numbers, found, strict=True))

    def _request(self, number: int, kind: str) -> int | None:
        name = NAMES[number % len(NAMES)]
        return self._get(f"/{kind}/{name}/{number}")

    def _get(self, path: str) -> int | None:
        with contextlib.closing(OverSocket(str(self.web))) as line:
            try:
                line.request("GET", path)
                return line.getresponse().status
            except (ConnectionError, http.client.HTTPException):
                return None

    def _serves(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return self._get("/") is not None
        return False

    def _output(self) -> str:
        output = self.place.path / "output"
        return output.read_text(errors="replace")[-3000:] if output.exists() else ""

    # --- a crash ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def crash(self) -> Iterator[None]:
        """Kill the process that has a lock while others wait for it."""
        hold = self.place.path / "hold"
        hold.touch()
        yield
        (pid,) = self.until(lambda: [each[3] for each in self._said("in") if each[2] == str(HELD)])
        os.kill(int(pid), signal.SIGSTOP)  # it says nothing from here on
        with (self.place.path / "log").open("a") as log:
            log.write(f"killed {pid}\n")
        hold.unlink()  # another process may do the same work, to its end
        os.kill(int(pid), signal.SIGKILL)

    def until(self, look):
        return waiting.until(look, "the workers go on", PATIENCE, tick=0.02)

    def _said(self, word: str) -> list[list[str]]:
        return self.place.lines(word)

    # --- the judgement ----------------------------------------------------------------------------

    def done(self) -> set[int]:
        """Return the numbers of those that have ended their work."""
        return {int(each[2]) for each in self._said("out")}

    def judge(self, capsys, *, processes: int = 0) -> None:
        """No two were inside at once, all but the killed were served, and nothing is left."""
        most, killed = self._replay()
        cut = [number for number, status in self.answers.items() if status is None]
        dead = {each[1] for each in self._said("killed")}
        began = {int(each[2]): each[3] for each in self._said("in")}
        pids = set(began.values()) | dead
        served = self.done()
        # What a killed process had done, but not confirmed, is done once more.
        once = [each[2] for each in self._said("out") if each[3] not in dead]
        counts = (
            f"{len(self.numbers)} sent, {len(served)} served, {len(killed)} killed inside,"
            f" {len(cut)} cut off, {most} inside at most, by {len(pids)} processes"
        )
        with capsys.disabled():
            sys.stdout.write(f"\n    {counts}\n")
        assert most == 1
        assert set(self.answers.values()) <= {200, None}, self._output()
        assert len(once) == len(set(once))
        assert set(self.numbers) - served <= set(cut), self._output()
        assert {began[number] for number in cut if number in began} <= dead
        assert len(cut) <= AT_ONCE * bool(dead)
        assert bool(killed) == bool(dead)
        assert len(pids) >= processes
        with fencelock.Client(self.place.url) as client:
            for name in NAMES:
                waiting.until(lambda name=name: free(client, name), f"{name} is free", 2 * TTL)

    def _replay(self) -> tuple[int, list[list[str]]]:
        inside: dict[str, list[list[str]]] = collections.defaultdict(list)
        most, killed = 0, []
        for line in (self.place.path / "log").read_text().splitlines():
            word, *said = line.split()
            if word == "in":
                inside[said[0]].append(said)
                most = max(most, len(inside[said[0]]))
            elif word == "out":
                inside[said[0]].remove(said)
            else:
                for each in inside.values():
                    killed += [one for one in each if one[2] == said[0]]
                    each[:] = [one for one in each if one[2] != said[0]]
        assert not any(inside.values())
        return most, killed


def free(client: fencelock.Client, name: str) -> bool:
    """Return True if nobody holds a lock or waits for it."""
    status = client.status(name)
    return not (status.held or status.waiters)
