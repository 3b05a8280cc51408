"""Everything at once: clients, connections, network and server fail at random, and it holds.

python -m tests.faults.storm [--seconds N] [--seed N]

Four client processes, two of each face, take two locks with short leases through a proxy, while
processes are frozen and killed, connections cut, answers lost, scripts flushed and the server
frozen. At the end the logs must show: no two proved leases of a lock overlap (I1), fences grow in
the order of the grants (I3), a resource that checks fences took no stale write and refused none
that was proved, nothing is held or waited for by nobody (I9), every key ends by itself (I10), and
grants went on all the time.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

from fencelock.clock import now
from tests.faults.children import ROOT
from tests.faults.proxy import Proxy
from tests.faults.storm_client import LOCKS
from tests.faults.world import View, wait_until
from tests.servers import Server

KINDS = ("threads", "threads", "tasks", "tasks")
BETWEEN_SECONDS = 0.15
REQUESTS = ("acquire", "release", "renew", "abandon", "alive", "subscribe", "granted")


class Storm:
    """The processes, the network and the server, and what happens to them."""

    def __init__(self, server, register, proxy, folder, seed):
        self.server, self.register, self.proxy = server, register, proxy
        self.folder = folder
        self.dice = random.Random(seed)
        self.faults = Counter()
        self.killed = {}  # log → when its process was killed
        self._numbers = itertools.count()
        self._pause = threading.Event()
        self.clients = [self.start(kind) for kind in KINDS]

    def start(self, kind):
        number = next(self._numbers)
        log = self.folder / f"{number}"
        command = [sys.executable, "-m", "tests.faults.storm_client", kind, self.proxy.url]
        process = subprocess.Popen(
            [*command, self.register.url, str(log), str(self.dice.randrange(10**6))],
            cwd=ROOT,
            stdin=subprocess.PIPE,
        )
        return kind, log, process

    def rage(self, seconds):
        end = now() + seconds
        while now() < end:
            fault = self.dice.choice(self.weather)
            self.faults[fault.__name__] += 1
            fault()
            self._pause.wait(self.dice.random() * 2 * BETWEEN_SECONDS)

    @property
    def weather(self):
        often = [self.lose, self.lose, self.freeze_client, self.freeze_client, self.freeze_client]
        return [*often, self.kill_client, self.cut, self.kill_links, self.flush, self.freeze_server]

    def freeze_client(self):
        _, _, process = self.dice.choice(self.clients)
        process.send_signal(signal.SIGSTOP)
        timer = threading.Timer(
            self.dice.choice((0.05, 0.3, 1.0)), process.send_signal, [signal.SIGCONT]
        )
        timer.daemon = True
        timer.start()

    def kill_client(self):
        number = self.dice.randrange(len(self.clients))
        kind, log, process = self.clients[number]
        process.kill()
        process.wait()
        self.killed[log] = now()
        process.stdin.close()
        self.clients[number] = self.start(kind)

    def lose(self):
        action = self.dice.choice(("drop_request", "drop_reply", "delay_request", "delay_reply"))
        then = self.dice.choice(("close", "rst", "silence", "blackhole"))
        name, delay = self.dice.choice(REQUESTS), self.dice.random() * 0.5
        if name == "granted":
            action = self.dice.choice(("drop_push", "drop_reply"))
        self.proxy.on(name, action, then=then, nth=self.dice.randrange(1, 4), seconds=delay)

    def cut(self):
        ways = {"requests": self.dice.random() < 0.7, "answers": self.dice.random() < 0.7}
        self.proxy.cut(**ways)
        self._pause.wait(self.dice.choice((0.02, 0.2, 0.6)))
        self.proxy.heal()

    def kill_links(self):
        kind = self.dice.choice(("pubsub", "normal"))
        self.server.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")

    def flush(self):
        self.server.command("SCRIPT", "FLUSH")

    def freeze_server(self):
        self.server.pause()
        self._pause.wait(self.dice.choice((0.02, 0.1, 0.5)))
        self.server.resume()

    def calm_down(self):
        """Let everybody finish what they do and close."""
        self.proxy.forget()
        self.proxy.heal()
        for _, _, process in self.clients:
            process.send_signal(signal.SIGCONT)
            process.stdin.close()
        return [process.wait(30) for _, _, process in self.clients]

    def kill_all(self):
        for _, _, process in self.clients:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            process.stdin.close()


class Verdict:
    """What the logs of all clients prove."""

    def __init__(self, folder, killed):
        self.tenures, self.troubles, self.unexpected = {}, Counter(), []
        self.accepted = self.stale = 0
        self.refused_though_proved = []
        for path in sorted(folder.iterdir()):
            for line in path.read_text().splitlines():
                self._take(json.loads(line), killed.get(path))

    def _take(self, line, killed_at):
        if "trouble" in line:
            self.troubles[line["trouble"]] += 1
        elif "unexpected" in line:
            self.unexpected.append(line["unexpected"])
        elif "write" in line:
            self.accepted += line["accepted"]
            self.stale += not line["accepted"]
            if line["proved"] and not line["accepted"]:
                self.refused_though_proved.append(line)
        else:
            self._tenure(line, killed_at)

    def _tenure(self, line, killed_at):
        key = line["lock"], line["fence"]
        if line.get("open"):
            if key in self.tenures:
                self.unexpected.append(f"fence given twice: {line}")
            # Of a killed process only this line may exist: it held until it was killed at most.
            line["end"] = min(line["end"], killed_at or line["start"])
        self.tenures[key] = line

    def of(self, lock):
        return sorted((t for t in self.tenures.values() if t["lock"] == lock), key=_start)

    def overlaps(self):
        found = []
        for lock in LOCKS:
            before = None
            for tenure in self.of(lock):
                if before and tenure["start"] < before["end"] and tenure["end"] > tenure["start"]:
                    found.append((before, tenure))
                if before is None or tenure["end"] > before["end"]:
                    before = tenure
        return found

    def fences_that_went_back(self):
        found = []
        for lock in LOCKS:
            proved = [t for t in self.of(lock) if t["end"] > t["start"]]
            found += [pair for pair in itertools.pairwise(proved) if not _grew(*pair)]
        return found

    def longest_gap(self, begun, ended):
        """Return the longest time without a grant."""
        starts = [begun, *sorted(t["start"] for t in self.tenures.values()), ended]
        return max(after - before for before, after in itertools.pairwise(starts))


def _start(tenure):
    return tenure["start"]


def _grew(before, after):
    return before["fence"] < after["fence"]


def run(seconds, seed):
    """Let it storm; return the verdict and a summary, fail on what may not be."""
    with contextlib.ExitStack() as stack:
        server, register = (stack.enter_context(Server()) for _ in range(2))
        proxy = stack.enter_context(Proxy(server))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        storm = Storm(server, register, proxy, folder, seed)
        stack.callback(storm.kill_all)
        wait_until(lambda: len(list(folder.iterdir())) == len(KINDS), 20, "all began")
        begun = now()
        storm.rage(seconds)
        ended = now()
        statuses = storm.calm_down()
        left = orphans(server)
        verdict = Verdict(folder, storm.killed)
        summary = {
            "seed": seed,
            "seconds": seconds,
            "faults": dict(storm.faults),
            "grants": len(verdict.tenures),
            "longest gap": round(verdict.longest_gap(begun, ended), 2),
            "overlaps": len(verdict.overlaps()),
            "fences that went back": len(verdict.fences_that_went_back()),
            "writes accepted": verdict.accepted,
            "stale writes refused": verdict.stale,
            "refused though proved": len(verdict.refused_though_proved),
            "orphans": left,
            "unexpected": verdict.unexpected[:3],
            "exit statuses": statuses,
            "told to callers": dict(verdict.troubles),
        }
    return verdict, summary


def orphans(server):
    """Return what is still held or waited for a moment after all clients ended, and what stays."""
    left = []
    for lock in LOCKS:
        try:
            View(server, lock).until_free(2.0)
        except AssertionError as error:
            left.append(str(error))
    keys = server.command("KEYS", "*")
    return left + [key for key in keys if server.command("TTL", key) == -1]


def main():
    parser = argparse.ArgumentParser(description="Fail at random, and check what holds.")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    chosen = parser.parse_args()
    verdict, summary = run(chosen.seconds, chosen.seed)
    print(json.dumps(summary, indent=2))  # noqa: T201 - run by hand, to be read
    for pair in [*verdict.overlaps(), *verdict.fences_that_went_back()][:5]:
        print(pair)  # noqa: T201 - as above


if __name__ == "__main__":
    main()
