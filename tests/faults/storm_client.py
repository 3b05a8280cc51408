"""One client of the storm: workers that take locks, write what they guard, and log their leases.

python -m tests.faults.storm_client FACE URL REGISTER_URL LOG SEED   until stdin ends

Each line of the log is one JSON object. A lease is proved from the instant acquire returned to the
release, the deadline or the loss, whichever was first; all are CLOCK_BOOTTIME.
"""

import json
import logging
import os
import random
import sys
import threading

import redis

from fencelock import FencelockError
from fencelock.clock import now
from tests.faults.world import FACES, spawn

LOCKS = ("storm-a", "storm-b")
TTLS = (0.4, 0.8, 1.5)
WORKERS = 3
# A resource that keeps the highest fence and refuses older ones.
REGISTER = """
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
if tonumber(ARGV[1]) < last then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""


class Worker:
    """Takes turns at the locks until it is told to stop."""

    def __init__(self, face, register, say, seed):
        self.face = face
        self.write = register.register_script(REGISTER)
        self.say = say
        self.dice = random.Random(seed)
        self.stop = threading.Event()
        self.pause = threading.Event()

    def run(self):
        while not self.stop.is_set():
            name = self.dice.choice(LOCKS)
            lock = self.face.lock(name, ttl=self.dice.choice(TTLS), renew=self.dice.random() < 0.7)
            try:
                self.take(name, lock)
            except FencelockError as error:
                self.say({"trouble": type(error).__name__})
            except Exception as error:  # noqa: BLE001 - what it may not raise is what is looked for
                self.say({"unexpected": repr(error)})

    def take(self, name, lock):
        if not lock.acquire(timeout=self.dice.choice((0.05, 1.0, 5.0))):
            self.say({"trouble": "timeout"})
            return
        start = now()
        lease = lock.lease
        tenure = {"lock": name, "fence": lease.fence, "start": start}
        self.say(tenure | {"end": lease.deadline, "open": True})
        try:
            self.hold(name, lease)
        finally:
            end = min(now(), lease.deadline)
            self.say(tenure | {"end": end})
            lock.release()

    def hold(self, name, lease):
        """Write a few times, and now and then hold on for longer than a lease lasts."""
        for _ in range(self.dice.choice((1, 1, 1, 1, 1, 2, 30))):
            self.pause.wait(self.dice.random() * 0.04)
            accepted = self.write(keys=[name], args=[lease.fence])
            proved = not lease.lost
            self.say({"write": name, "fence": lease.fence, "accepted": accepted, "proved": proved})
            if not proved:
                return


def main():
    kind, url, register, path, seed = sys.argv[1:]
    (face,) = (each for each in FACES if each.name == kind)
    logging.getLogger("fencelock").setLevel(logging.CRITICAL)  # its callers are told, and log it
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    client = face(url, server_timeout=1.0)
    workers = [
        Worker(
            client,
            redis.Redis.from_url(register),
            lambda line: os.write(log, json.dumps(line).encode() + b"\n"),
            int(seed) * WORKERS + number,
        )
        for number in range(WORKERS)
    ]
    running = [spawn(worker.run) for worker in workers]
    sys.stdin.read()
    for worker in workers:
        worker.stop.set()
    for each in running:
        each.result(20)
    client.close()


if __name__ == "__main__":
    main()
