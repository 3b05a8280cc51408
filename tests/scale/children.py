"""Start the processes of this folder, tell them what to do, and count on the server meanwhile."""

import contextlib
import json
import subprocess
import sys

from tests.faults.children import ROOT

LOCK = "crowded"
QUEUE = b"fencelock:{fencelock:%b}~queue" % LOCK.encode()


class Child:
    """One process; ``ask`` waits for its answer, ``tell`` and ``answer`` are its halves."""

    def __init__(self, module, *args):
        command = [sys.executable, "-m", f"tests.scale.{module}", *map(str, args)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)

    def tell(self, do):
        self.process.stdin.write(f"{do}\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        assert line, f"the process ended with {self.process.wait()}"
        return json.loads(line)

    def ask(self, do):
        self.tell(do)
        return self.answer()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@contextlib.contextmanager
def children(*commands):
    """Start processes that end with the block, whatever happens."""
    with contextlib.ExitStack() as ends:
        started = []
        for command in commands:
            child = Child(*command)
            ends.callback(child.kill)
            started.append(child)
        yield started


def scripts_run(server):
    """Return how many scripts the server ran since its statistics were reset."""
    stats = server.commandstats()
    return stats.get("evalsha", 0) + stats.get("eval", 0)


def cpu_seconds(server):
    """Return the server's time on a processor so far."""
    info = server.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])
