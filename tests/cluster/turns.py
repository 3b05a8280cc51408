"""Clients that take turns under one lock, and a count of those who held it at once."""

import threading

import fencelock
from tests.faults.world import spawn, wait_until


class Turns:
    """Threads that acquire, look around, and release, until they are told to end."""

    def __init__(self, cluster, name, ttl=6.0):
        self.cluster = cluster
        self.name = name
        self.ttl = ttl
        self.done = 0
        self.doubles = []  # what was seen of each
        self.fences = []
        self.troubles = []
        self._inside = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._jobs = []

    def begin(self, clients):
        self._jobs = [spawn(self._run, client) for client in clients]

    def _run(self, client):
        lock = client.lock(self.name, ttl=self.ttl)
        while not self._over.is_set():
            try:
                if lock.acquire(timeout=20):
                    self._turn(lock)
            except fencelock.FencelockError as error:
                self.troubles.append(error)

    def _turn(self, lock):
        lease = lock.lease
        with self._lock:
            self.doubles += [
                f"{lease!r} beside {other!r}, which has {other.remaining():.3f} s, {self.done} done"
                for other in self._inside.values()
                if not other.lost
            ]
            self._inside[lease.fence] = lease
            self.fences.append(lease.fence)
        self._over.wait(0.001)
        with self._lock:
            del self._inside[lease.fence]
            self.done += 1
        lock.release()

    def until_more(self, number, seconds=20):
        """Wait until there were so many more turns."""
        before = self.done
        wait_until(lambda: self.done >= before + number, seconds, f"{number} more turns")

    def end(self):
        """End all, and return each grant of what another still held."""
        self._over.set()
        for job in self._jobs:
            job.result(30)
        assert len(set(self.fences)) == len(self.fences), "a fence was used twice"
        return self.doubles
