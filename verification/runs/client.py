"""One client process: some workers, and what befalls them that only the process itself can do.

python -m verification.runs.client FACE URLS REGISTER_URL LOG SEED PLAY

Runs until its input ends. Each line of the input names a method of ``Program`` and its arguments.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
import traceback
import warnings
from concurrent.futures import Future
from typing import NoReturn

from redis import Redis

from tests.faults.world import spawn
from verification.runs.faces import FACES
from verification.runs.leaks import sample, threads
from verification.runs.objects import PLAYS
from verification.runs.worker import Asking, Journal, Worker, take

WORKERS = 3
SERVER_SECONDS = 1.0
CHILD_SECONDS = 10
PARK_SECONDS = 20.0


class Program:
    """The workers of one client, and what happens to it."""

    def __init__(  # noqa: PLR0917 - the words of a command line
        self, face: str, urls: str, register: str, log: str, seed: str, play: str
    ) -> None:
        self.journal = Journal(log)
        self.journal.say("began")
        self._sample("begin")
        self.register = Redis.from_url(register)
        self.play = PLAYS[play]
        options = dict(self.play.options)
        one, *more = urls.split(" ")
        self.face = FACES[face](
            [one, *more] if more else one, server_timeout=SERVER_SECONDS, **options
        )
        self._own_threads = threads()
        self.workers = [
            Worker(self.face, self.register, self.journal, self.play, int(seed) * WORKERS + number)
            for number in range(WORKERS)
        ]
        self._children: list[Future[None]] = []
        self._running = [spawn(worker.run) for worker in self.workers]

    def stall(self, seconds: float) -> None:
        """Block the event loop, as a callback does that computes for long."""
        self.face.loop.call_soon_threadsafe(time.sleep, seconds)

    def fork(self) -> None:
        """Go on in two processes; the child has no lease, and can get one."""
        with warnings.catch_warnings(action="ignore"):  # other threads run: that is the point
            pid = os.fork()
        if pid == 0:
            self._as_child()
        self._children.append(spawn(self._await, pid))

    def park(self, label: str) -> None:
        """Stop working until ``resume``, and count what is left of it."""
        for worker in self.workers:
            worker.go.clear()
        for worker in self.workers:
            if not worker.parked.wait(PARK_SECONDS):
                self.journal.say("unexpected", text="a worker did not stop working")
        self._no_children()
        self._sample(label, idle=(self._own_threads + WORKERS, WORKERS))

    def resume(self) -> None:
        """Work on."""
        for worker in self.workers:
            worker.go.set()

    def end(self) -> None:
        """Finish what is under way and close; count what is left."""
        for worker in self.workers:
            worker.stop.set()
        self.resume()
        for each in self._running:
            each.result(PARK_SECONDS)
        self._no_children()
        self.face.close()
        self.register.close()
        self._sample("closed", idle=(1, 0))

    def _no_children(self) -> None:
        for child in self._children:
            child.result(PARK_SECONDS)
        self._children.clear()

    def _sample(self, label: str, idle: tuple[int, int] | None = None) -> None:
        found = sample(getattr(self, "face", None), idle=idle)
        self.journal.say("sample", label=label, pid=os.getpid(), at=time.time(), **found)

    def _as_child(self) -> NoReturn:
        signal.alarm(CHILD_SECONDS)
        status = 1
        try:
            kept = [worker.lease for worker in self.workers if worker.lease is not None]
            if not all(lease.lost for lease in kept):
                self.journal.say("unexpected", text="a child has a lease of its parent")
            self.face.revive()
            kind = self.play.kinds[0]
            handle = kind.handle(self.face, 1.0, renew=True)
            take(self.journal, kind, handle, Asking(timeout=2.0), lambda *_: None)
            status = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the parent's code must not go on here
            self.journal.say("unexpected", text=f"in a child: {traceback.format_exc()}")
        finally:
            os._exit(status)

    def _await(self, pid: int) -> None:
        _, status = os.waitpid(pid, 0)
        if status:
            self.journal.say("unexpected", text=f"a child ended with status {status}")


def main() -> None:
    logging.getLogger("fencelock").setLevel(logging.CRITICAL)  # its callers are told, and log it
    if "RUNS_DEFECT" in os.environ:
        from verification.runs import defects  # noqa: PLC0415 - it brings the simulator with it

        defects.sow()
    program = Program(*sys.argv[1:])
    for line in sys.stdin:
        do, *arguments = json.loads(line)
        getattr(program, do)(*arguments)
    program.end()


if __name__ == "__main__":
    main()
