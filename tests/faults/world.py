"""Both faces behind one blocking surface, and the truth as the server has it."""

import asyncio
import concurrent.futures
import contextlib
import inspect
import threading

import fencelock
from fencelock._core.keys import LockKeys
from fencelock._runtime.clock import now
from fencelock.compat import redisson
from tests.local_lines import waiting_locally
from tests.waiting import SOON, machine_seconds, until

PREFIX = "fencelock:"


def wait_until(true, seconds=SOON, what="the state"):
    """Wait for a state by asking for it; return what it gave, fail at the end of the time."""
    return until(true, what, seconds)


class Ending(concurrent.futures.Future):
    """What a call gave, waited for as ``until`` waits for a state."""

    def result(self, timeout=None):
        """Return or raise what came out of it."""
        if timeout is not None:
            until(self.done, "the end of a call", timeout)
        return super().result()


def spawn(function, *args, **options):
    """Run in a daemon thread; return a future."""
    future = Ending()

    def run():
        try:
            future.set_result(function(*args, **options))
        except BaseException as error:  # noqa: BLE001 - the future hands it to who asks
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def outcome(function, *args, **options):
    """Return what a call gave, or the error it raised, and how long it took."""
    begun = now()
    try:
        result = function(*args, **options)
    except fencelock.FencelockError as error:
        result = error
    return result, now() - begun


def allowed_seconds():
    """Return by how much a call may end after its timeout (I13)."""
    return 0.1 + machine_seconds()


class _Face:
    """Keeps the handles it made, so that a test that fails drops none while it holds."""

    def __init__(self):
        self._made = []

    def __getattr__(self, kind):
        """Return what makes a handle of a kind, as the client's method of that name does."""
        factory = getattr(self.client, kind)
        return lambda *args, **options: self._make(factory(*args, **options))

    def redisson(self, name, **options):
        kind = redisson.AsyncLock if self.name == "tasks" else redisson.Lock
        return self._make(kind(self.client, name, **options))

    def read(self, name, **options):
        return self._make(self.client.rwlock(name, **options).read)

    def write(self, name, **options):
        return self._make(self.client.rwlock(name, **options).write)

    def _make(self, handle):
        self._made.append(handle)
        return self._wrapped(handle)

    def _wrapped(self, handle):
        return handle

    def body(self, function):
        """Return a function as this face runs it."""
        return function

    def _forget(self):
        for handle in self._made:
            for hold in getattr(getattr(handle, "_holds", None), "_holds", ()):
                hold.open = False


class Threads(_Face):
    """The blocking face, as it is."""

    name = "threads"

    def __init__(self, url, **options):
        super().__init__()
        self.client = fencelock.Client(url, **options)

    @property
    def port(self):
        return self.client._port

    def close(self):
        self._forget()
        self.client.close()


class Tasks(_Face):
    """The asyncio face, in a loop of its own thread; every call blocks until it ended there."""

    name = "tasks"

    def __init__(self, url, **options):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.client = fencelock.AsyncClient(url, **options)

    @property
    def port(self):
        return self.run(self._port())

    async def _port(self):
        return self.client._port()

    def _wrapped(self, handle):
        return OnLoop(self, handle)

    def body(self, function):
        async def runs(*args):
            return await asyncio.to_thread(function, *args)

        return runs

    def begin(self, coroutine):
        """Start a task; its future's ``cancel`` cancels the task."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine):
        return self.begin(coroutine).result(60)

    def close(self):
        if self.loop.is_closed():
            return
        self._forget()
        self.run(self.client.aclose())
        self.run(_rest_of_the_tasks())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


async def _rest_of_the_tasks():
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class OnLoop:
    """A lock or lease of the asyncio face whose coroutines are run on its loop and waited for."""

    def __init__(self, face, inner):
        self._face = face
        self._inner = inner

    def __getattr__(self, name):
        if name == "lease":
            lease = self._face.run(self._newest_lease())
            return lease and OnLoop(self._face, lease)
        value = getattr(self._inner, name)
        if inspect.isawaitable(value):
            return self._face.run(value)
        if not inspect.iscoroutinefunction(inspect.unwrap(value)):
            return value
        return lambda *args, **options: self._face.run(value(*args, **options))

    async def _newest_lease(self):
        return self._inner.lease


FACES = (Threads, Tasks)


class View:
    """One lock as the server has it."""

    def __init__(self, server, name):
        self.server = server
        self.name = name
        self.keys = LockKeys(PREFIX, name)
        self._lock, _, self._queue, _, self._holds = (key.decode() for key in self.keys.grant)

    def holder(self):
        return self.server.command("GET", self._lock)

    def remaining(self):
        """Return the lease's rest in seconds; negative without one."""
        return self.server.command("PTTL", self._lock) / 1000

    def waiting(self):
        return self.server.command("ZCARD", self._queue) + waiting_locally(self._lock.encode())

    def holds(self):
        """Return the number of holds of an explicit owner."""
        return self.server.command("SCARD", self._holds)

    def free(self):
        """Return True if nobody holds it and nobody is in line."""
        return self.holder() is None and self.waiting() == 0

    def until_free(self, seconds=8.0):
        wait_until(self.free, seconds, f"nothing left of {self.name}")

    def until_waiting(self, count, seconds=8.0):
        wait_until(lambda: self.waiting() == count, seconds, f"{count} in line")

    def until_held_by(self, lease, seconds=8.0):
        wait_until(lambda: self.holder() == lease.holder, seconds, "held by that lease")


class ShareView(View):
    """One semaphore or reader/writer lock as the server has it."""

    def holders(self):
        """Return how many leases last."""
        seconds, micros = self.server.command("TIME")
        return self.server.command("ZCOUNT", self._lock, f"({seconds}{int(micros):06}", "+inf")

    def free(self):
        return self.holders() == 0 and self.waiting() == 0


def in_line(locks, view, **options):
    """Have locks wait in this order; return futures of what each was told."""
    waiting = []
    for lock in locks:
        waiting.append(spawn(lock.acquire, **options))
        view.until_waiting(len(waiting))
    return waiting


def until_served(locks, waiting, view, seconds=20):
    """Let each release when it is granted; return the locks and their fences in that order."""
    left = dict(zip(waiting, locks, strict=True))
    served = {}
    deadline = now() + seconds
    while left:
        wait_until(lambda: any(each.done() for each in left), deadline - now(), "the next grant")
        for each in [each for each in left if each.done()]:
            lock = left.pop(each)
            assert each.result() is True
            served[lock] = lock.lease.fence
            lock.release()
    fences = list(served.values())
    assert fences == sorted(set(fences))
    view.until_free()
    return list(served), fences


@contextlib.contextmanager
def held(view, seconds=60.0):
    """Hold a lock as some other program would: a plain key with an expiry."""
    key = view.keys.lock.decode()
    assert view.server.command("SET", key, "another", "NX", "PX", int(seconds * 1000)) == "OK"
    yield
    if view.holder() == "another":
        view.server.command("DEL", key)
