"""A process of very many waiters on one lock.

python -m tests.scale.crowd tasks|clients|threads|holder URL COUNT

``tasks`` are the tasks of one client, ``clients`` have a client and a connection each, ``threads``
are the threads of one client, and ``holder`` takes the lock and keeps it until it is killed.
Answers each line that it reads with one JSON line: ``stand`` puts all in line and returns once the
server has them, ``served`` waits until all had their turn and returns (fence, id) of each, and
``close`` closes.
"""

import asyncio
import os
import sys
import threading

import fencelock
from tests.scale.keeper import resident, say

NAME = "crowded"
TTL = 6  # longer than a machine stands still
BURST = 250  # connections that are opened side by side


class Tasks:
    """All in one loop, with one client or with one each."""

    def __init__(self, kind, url, count):
        self.url, self.count = url, int(count)
        self.single = kind == "tasks"
        self.turns, self.taken = [], []

    def make(self):
        return fencelock.AsyncClient(self.url, cohort=None)

    async def turn(self, client):
        async with client.lock(NAME, ttl=TTL) as lease:
            self.taken.append((lease.fence, lease.holder))

    async def stand(self):
        memory = resident()
        one = self.make()
        self.clients = [one if self.single else self.make() for _ in range(self.count)]
        for start in range(0, self.count, BURST):
            chosen = range(start, min(start + BURST, self.count))
            self.turns += [asyncio.create_task(self.turn(self.clients[at])) for at in chosen]
            await self.until_standing(len(self.turns))
        return {"bytes": (resident() - memory) / self.count}

    async def until_standing(self, count):
        """Wait until the server answered so many that they stand in line."""
        ports = {id(client): client._port() for client in self.clients}.values()
        while sum(len(port.lines.all_waiters()) for port in ports) < count:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0)

    async def served(self):
        await asyncio.gather(*self.turns)
        return {"taken": self.taken}

    async def close(self):
        for client in {id(client): client for client in self.clients}.values():
            await client.aclose()
        return {}

    async def serve(self):
        loop = asyncio.get_running_loop()
        lines = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := await lines.readline():
            say(await getattr(self, line.decode().strip())())

    def run(self):
        asyncio.run(self.serve())


class Threads:
    """The threads of one client; each has a connection of its own."""

    def __init__(self, _kind, url, count):
        self.client = fencelock.Client(url, cohort=None)
        self.count = int(count)
        self.turns, self.taken = [], []

    def turn(self):
        with self.client.lock(NAME, ttl=TTL) as lease:
            self.taken.append((lease.fence, lease.holder))

    def stand(self):
        memory, pause = resident(), threading.Event()
        self.crowd = [threading.Thread(target=self.turn) for _ in range(self.count)]
        for number, each in enumerate(self.crowd, 1):
            each.start()
            while self.standing() < number:
                pause.wait(0.0005)
        return {"bytes": (resident() - memory) / self.count}

    def standing(self):
        port = self.client._port
        with port.mutex:  # the other threads join their lines meanwhile
            return len(port.lines.all_waiters())

    def served(self):
        for each in self.crowd:
            each.join()
        return {"taken": self.taken}

    def close(self):
        self.client.close()
        return {}

    def run(self):
        for line in sys.stdin:
            say(getattr(self, line.strip())())


class Holder(Threads):
    """Takes the lock and keeps it."""

    def stand(self):
        self.lock = self.client.lock(NAME, ttl=TTL)
        self.lock.acquire()
        return {}


if __name__ == "__main__":
    kind = sys.argv[1]
    faces = {"threads": Threads, "holder": Holder}
    faces.get(kind, Tasks)(*sys.argv[1:4]).run()
    os._exit(0)
