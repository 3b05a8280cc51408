"""The client processes of a run, what befalls them, and what their logs say."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fencelock._runtime.clock import now
from tests.faults.children import ROOT
from tests.faults.world import wait_until
from verification.runs.fault import Fault
from verification.runs.history import History, Log

KINDS = ("threads", "tasks", "threads", "tasks")
BEGIN_SECONDS = 40.0
END_SECONDS = 40.0


@dataclass(eq=False)
class Client:
    """One process; ``lasting`` ones are never killed, so that leaks show."""

    face: str
    log: Log
    process: subprocess.Popen[bytes]
    lasting: bool

    def tell(self, *words: object) -> None:
        """Have it do something; see ``client.Program``."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended by itself: its status will tell
            self.process.stdin.write(json.dumps(words).encode() + b"\n")
            self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


class Crew:
    """So many processes at any time, of both faces; who is killed is replaced."""

    def __init__(
        self,
        addresses: tuple[str, str],
        folder: Path,
        seed: int,
        *,
        environment: Mapping[str, str],
        lasting: int,
        play: str = "usual",
    ) -> None:
        self._play = play
        self.history = History()
        self._addresses = addresses
        self._environment = {**os.environ, **environment}
        self._folder = folder
        self._dice = random.Random(seed)
        self._numbers = itertools.count()
        self._ended: list[Client] = []
        self._killed: list[tuple[int, float]] = []
        self.clients = [
            self._start(face, lasting=number < lasting) for number, face in enumerate(KINDS)
        ]

    def ready(self) -> None:
        """Return when all work."""
        logs = [client.log.path for client in self.clients]
        wait_until(lambda: all(map(_begun, logs)), BEGIN_SECONDS, "all began")

    def faults(self) -> Iterator[Fault]:
        """Yield what can befall a client."""
        yield Fault("freeze client", self.freeze, often=4)
        yield Fault("kill client", self.kill, often=2)
        yield Fault("stall loop", self.stall)
        yield Fault("fork", self.fork)

    def freeze(self) -> None:
        process = self._dice.choice(self.clients).process
        process.send_signal(signal.SIGSTOP)
        seconds = self._dice.choice((0.05, 0.3, 1.0, 2.0))
        timer = threading.Timer(seconds, process.send_signal, [signal.SIGCONT])
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        number = self._dice.choice([n for n, one in enumerate(self.clients) if not one.lasting])
        client = self.clients[number]
        client.process.kill()
        client.process.wait()
        self._killed.append((client.process.pid, now()))
        client.close()
        self._ended.append(client)
        self.clients[number] = self._start(client.face, lasting=False)

    def stall(self) -> None:
        tasks = [client for client in self.clients if client.face == "tasks"]
        self._dice.choice(tasks).tell("stall", self._dice.choice((0.1, 0.5, 1.5)))

    def fork(self) -> None:
        self._dice.choice(self.clients).tell("fork")

    def collect(self) -> History:
        """Read what was logged since, and return all that is known."""
        killed, self._killed = self._killed, []
        for client in (*self._ended, *self.clients):
            for line in client.log.lines():
                self.history.take(line)
        for pid, at in killed:
            self.history.died(pid, at)
        self._ended = []
        return self.history

    def park(self, label: str) -> None:
        """Have all stop working and count what they have; return when all did."""
        for client in self.clients:
            client.process.send_signal(signal.SIGCONT)
            client.tell("park", label)
        pids = {client.process.pid for client in self.clients}
        wait_until(lambda: pids <= self._sampled(label), END_SECONDS, f"samples: {label}")

    def resume(self) -> None:
        """Have all work on."""
        for client in self.clients:
            client.tell("resume")

    def _sampled(self, label: str) -> set[int]:
        samples = self.collect().samples
        return {sample["pid"] for sample in samples if sample["label"] == label}

    def finish(self) -> list[int]:
        """Let everybody finish what they do and close; return their exit statuses."""
        for client in self.clients:
            client.process.send_signal(signal.SIGCONT)
            client.close()
        return [client.process.wait(END_SECONDS) for client in self.clients]

    def kill_all(self) -> None:
        """End what still runs."""
        for client in self.clients:
            with contextlib.suppress(ProcessLookupError):
                os.kill(client.process.pid, signal.SIGKILL)
            client.process.wait()
            client.close()

    def _start(self, face: str, *, lasting: bool) -> Client:
        path = self._folder / f"{next(self._numbers)}"
        command = [sys.executable, "-m", "verification.runs.client", face, *self._addresses]
        process = subprocess.Popen(
            [*command, str(path), str(self._dice.randrange(10**6)), self._play],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
        )
        path.touch()
        return Client(face, Log(path), process, lasting)


def _begun(path: Path) -> bool:
    return path.stat().st_size > 0
