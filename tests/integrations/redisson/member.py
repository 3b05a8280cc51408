"""Members of a lock in Python: requests on stdin, answers on stdout, as Member.java's.

python -m tests.integrations.redisson.member threads|asyncio URL [watchdog=MILLISECONDS]
"""

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import fencelock
from fencelock.compat import redisson

RENEWED = "-1"  # in the place of a lease's milliseconds, as Redisson has it
PLAIN, FENCED = 0, 1


class Threads:
    """The face for threads; each of the member's threads is a thread of this process."""

    client, kinds = fencelock.Client, (redisson.Lock, redisson.FencedLock)
    queue = SimpleQueue

    def begin(self, flow):
        threading.Thread(target=finished, args=(flow,), daemon=True).start()

    async def of(self, found):
        """Return what a call gave, which in asyncio is awaited."""
        return found

    async def side_by_side(self, flows):
        with ThreadPoolExecutor(len(flows)) as pool:
            return list(pool.map(finished, flows))


class Tasks:
    """The face for asyncio; each of the member's threads is a task of one loop."""

    client, kinds = fencelock.AsyncClient, (redisson.AsyncLock, redisson.AsyncFencedLock)

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def queue(self):
        return _Bridge(self._loop)

    def begin(self, flow):
        asyncio.run_coroutine_threadsafe(flow, self._loop)

    async def of(self, found):
        return await found if asyncio.iscoroutine(found) else found

    async def side_by_side(self, flows):
        return await asyncio.gather(*flows)


class _Bridge:
    """A queue that is filled by the thread that reads, and emptied by a task."""

    def __init__(self, loop):
        self._loop, self._queue = loop, asyncio.Queue()

    def put(self, words):
        self._loop.call_soon_threadsafe(self._queue.put_nowait, words)

    def get(self):
        return self._queue.get()


def finished(flow):
    """Run a flow that suspends nowhere; return its result."""
    try:
        flow.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it suspended")


class Program:
    """Carries out requests, each thread's in their order, on handles kept by their terms."""

    def __init__(self, face, url, watchdog=None):
        self._face = face
        self._client = face.client(url)
        self._more = {} if watchdog is None else {"watchdog_timeout": int(watchdog) / 1000}
        self._handles, self._threads = {}, {}
        self._used = {}  # (thread, name): the handle that was used last
        self._writing = threading.Lock()

    def handle(self, thread, name, lease=RENEWED, kind=PLAIN):
        """Return the handle with these terms, from now on that of this thread and name."""
        terms = (name, lease, kind)
        if terms not in self._handles:
            seconds = None if lease == RENEWED else int(lease) / 1000
            made = self._face.kinds[kind](self._client, name, lease_time=seconds, **self._more)
            self._handles[terms] = made
        self._used[thread, name] = self._handles[terms]
        return self._handles[terms]

    def put(self, words):
        """Hand a request to its thread."""
        thread = words[1]
        if thread not in self._threads:
            self._threads[thread] = self._face.queue()
            self._face.begin(self._serve(self._threads[thread]))
        self._threads[thread].put(words)

    async def _serve(self, requests):
        while True:
            number, thread, verb, *arguments = await self._face.of(requests.get())
            try:
                answer = await getattr(self, f"do_{verb}")(thread, *arguments)
            except Exception as error:  # noqa: BLE001 - the parent is answered whatever it was
                answer = f"! {type(error).__name__}: {error}".replace("\n", " ")
            self.say(f"{number} {answer}")

    def say(self, line):
        with self._writing:
            print(line, flush=True)  # noqa: T201 - how it talks to its parent

    def last(self, thread, name):
        """Return the handle that this thread used last for the name."""
        return self._used.get((thread, name)) or self.handle(thread, name)

    async def do_lock(self, thread, name, lease=RENEWED):
        return await self._face.of(self.handle(thread, name, lease).acquire())

    async def do_try(self, thread, name, wait, lease=RENEWED):
        lock = self.handle(thread, name, lease)
        if wait == "0":
            return await self._face.of(lock.acquire(blocking=False))
        return await self._face.of(lock.acquire(timeout=int(wait) / 1000))

    async def do_token(self, thread, name):
        lock = self.handle(thread, name, kind=FENCED)
        await self._face.of(lock.acquire())
        return lock.lease.fence

    async def do_unlock(self, thread, name):
        return await self._face.of(self.last(thread, name).release())

    async def do_force(self, thread, name):
        return await self._face.of(self.last(thread, name).force_unlock())

    async def do_locked(self, thread, name):
        return await self._face.of(self.last(thread, name).locked())

    async def do_owned(self, thread, name):
        return await self._face.of(self.last(thread, name).owned())

    async def do_lost(self, thread, name):
        lease = self.last(thread, name).lease
        return lease is None or lease.lost

    async def do_turns(self, thread, name, folder, total, workers):
        lock = self.handle(thread, name)
        flows = [self._turns(lock, Path(folder), int(total)) for _ in range(int(workers))]
        return ",".join(map(str, await self._face.side_by_side(flows)))

    async def _turns(self, lock, folder, total):
        had = 0
        while True:
            await self._face.of(lock.acquire())
            going = turn(folder, total)
            await self._face.of(lock.release())
            if not going:
                return had
            had += 1


def turn(folder, total):
    """Enter alone, and count: a file that is there already is another member inside."""
    (folder / "inside").touch(exist_ok=False)
    count = folder / "count"
    before = int(count.read_text())
    if before < total:
        count.write_text(str(before + 1))
    (folder / "inside").unlink()
    return before < total


def main():
    face, url, *options = sys.argv[1:]
    kind = {"threads": Threads, "asyncio": Tasks}[face]
    program = Program(kind(), url, **dict(each.split("=") for each in options))
    program.say("ready")
    for line in sys.stdin:
        program.put(line.split())
    os._exit(0)  # the parent is gone, or done with us: no clean-up, as in a crash


if __name__ == "__main__":
    main()
