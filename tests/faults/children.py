"""Clients in processes of their own, that a test can freeze, kill and ask."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ANSWER_SECONDS = 20.0


class Answering:
    """A process that answers on its output, line by line, what it is asked on its input."""

    answer_seconds = ANSWER_SECONDS

    def __init__(self, command):
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._asked = []
        self._ready = concurrent.futures.Future()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self):
        return self._process.pid

    def ready(self):
        """Return once it runs, so that several can start side by side."""
        self._ready.result(self.answer_seconds)
        return self

    def pause(self):
        """Freeze it; return once it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        if self._process.poll() is None:
            self.kill()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()


class Child(Answering):
    """One child process; ``ask`` returns a future, ``tell`` waits for the answer."""

    def __init__(self, face, url, **options):
        self.losses = []
        super().__init__(
            [sys.executable, "-m", "tests.faults.child", face.name, url, json.dumps(options)]
        )

    def lock(self, name, handle="", **options):
        """Make a handle in the child; it is called by the lock's name unless it has its own."""
        self.tell("lock", handle=handle or name, name=name, **options)

    def make(self, kind, name, handle="", **options):
        """Make a handle of a kind that is no lock: "semaphore", "read" or "write"."""
        self.tell("lock", handle=handle or name, name=name, kind=kind, **options)

    def ask(self, do, handle, **options):
        future = concurrent.futures.Future()
        self._asked.append(future)
        self._process.stdin.write(json.dumps({"do": do, "handle": handle, **options}) + "\n")
        return future

    def tell(self, do, handle, **options):
        return self.ask(do, handle, **options).result(ANSWER_SECONDS)

    def acquire(self, handle, **options):
        """Acquire and return what is known of the grant."""
        answer = self.tell("acquire", handle, **options)
        assert answer.get("granted"), answer
        return answer

    def _read(self):
        for line in self._process.stdout:
            message = json.loads(line)
            if "id" in message:
                self._asked[message["id"]].set_result(message)
            elif "lost" in message:
                self.losses.append(message)
            else:
                self._ready.set_result(True)
