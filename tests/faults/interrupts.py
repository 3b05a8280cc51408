"""A program whose signal handler raises in the middle of anything, as Ctrl-C does.

python -m tests.faults.interrupts URL TIMES SEED NAME ...   takes the locks in turn; prints a JSON
line with what it found and waits for its stdin to end, so that its threads can be watched.
"""

import json
import random
import signal
import sys

import redis

import fencelock
from tests.faults.world import PREFIX


class Interrupt(BaseException):
    """What the handler raises."""


def interrupt(*_):
    raise Interrupt


class Victim:
    """Takes locks until it was interrupted often enough, and counts what must not happen."""

    def __init__(self, url, seed):
        self.client = fencelock.Client(url)
        self.server = redis.Redis.from_url(url, decode_responses=True)
        self.dice = random.Random(seed)
        self.found = dict.fromkeys(("interrupted", "unread", "false_grants", "errors", "turns"), 0)

    def run(self, times, names):
        signal.signal(signal.SIGALRM, interrupt)
        while self.found["interrupted"] < times:
            try:
                self.use(self.dice.choice(names))
            except Interrupt:
                self.found["interrupted"] += 1
            self.found["unread"] += sum(idle.owed > 0 for idle in idle_connections(self.client))
        return self.found

    def use(self, name):
        """Take a lock once; a timer that is set once interrupts it once, anywhere."""
        try:
            self.arm()
            with self.client.lock(name, ttl=60, timeout=1) as lease:
                self.disarm()
                self.found["turns"] += 1
                self.found["false_grants"] += self.server.get(PREFIX + name) != lease.holder
                self.arm()
        except fencelock.AcquireTimeout:
            pass  # an earlier grant that nobody holds: the test looks for those at the end
        except fencelock.FencelockError:
            self.found["errors"] += 1
        finally:
            self.disarm()

    def arm(self):
        signal.setitimer(signal.ITIMER_REAL, self.dice.uniform(5e-5, 2e-3))

    def disarm(self):
        signal.setitimer(signal.ITIMER_REAL, 0)


def idle_connections(client):
    port = client._port
    return list(getattr(port, "pool", port).free)


def main():
    url, times, seed, *names = sys.argv[1:]
    found = Victim(url, int(seed)).run(int(times), names)
    print(json.dumps(found), flush=True)  # noqa: T201 - how it talks to its parent
    sys.stdin.read()


if __name__ == "__main__":
    main()
