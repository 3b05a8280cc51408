"""One way to write a test for threads and for asyncio: ``async def``, run by either face.

The blocking face gets awaitable methods that run straight through: its coroutines must finish at
the first ``send(None)``. What runs beside the test is a thread there and a task here.

At the end of every test: each key has an expiry (I10), and closed clients have no connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import fencelock
from fencelock._core.keys import LockKeys
from fencelock._io.threads import run_blocking
from fencelock._runtime.clock import now
from tests.conformance.book import the_book
from tests.conformance.leftovers import (
    activities,
    holds_some,
    is_closed,
    kept_while_open,
    leftovers,
    leftovers_of_hook,
    waits_here,
)
from tests.factories import FACTORIES
from tests.local_lines import waiting_locally
from tests.servers import Refused, Server, ServerBinary
from tests.waiting import LOOK_SECONDS, SOON, TICK, Patience, until

if TYPE_CHECKING:
    from fencelock._core.look.overview import Overview
    from fencelock.status import LockStatus
    from tests.conformance.book import Book

# uvloop has no wheel for PyPy, nor for Pythons without the GIL.
FACES = ("threads", "asyncio", "uvloop")[: 3 if find_spec("uvloop") else 2]
# What the test itself asks, and what servers send to each other.
NOISE = {"info", "replconf", "ping", "config|set", "slowlog|get", "slowlog|reset"}
NOISE |= {"config", "slowlog"}  # as older servers count them
# What a client sends when a time has come, whatever a test does: on a slow machine there is more.
TIMED = {
    *("heartbeat", "probe", "renew", "revoked", "clock", "barrier_check"),
    *("shares_heartbeat", "shares_probe", "shares_renew", "redisson_renew", "poll_renew"),
}
_numbers = itertools.count(1)
_never = threading.Event()


started: list[Server] = []


def needs_no_server(test: Any) -> Any:
    """Mark a test whose outcome no server decides: once per face is enough."""
    test.needs_no_server = True
    return test


def _kept(server: Server) -> Server:
    started.append(server)
    return server.start()


@functools.cache
def shared_server(binary: ServerBinary) -> Server:
    """Return the one server of a kind that most tests share; conftest closes it."""
    return _kept(Server(binary))


@functools.cache
def cluster_node(binary: ServerBinary) -> Server:
    """Return a Cluster of one node that has all slots: it refuses scripts that touch two."""
    server = _kept(Server(binary, args=["--cluster-enabled", "yes"]))
    server.command("CLUSTER", "ADDSLOTS", *range(16384))
    if server.info("cluster"):
        until(lambda: "state:ok" in server.command("CLUSTER", "INFO"), "a Cluster of one node")
    return server


class Sent:
    """What reached the server during a block, by command, those inside scripts included."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.calls: Counter[str] = Counter()  # of scripts, by name

    def __getitem__(self, command: str) -> int:
        return self.counts.get(command, 0)

    @property
    def scripts(self) -> int:
        """How many script calls clients sent, but for those that only time brings."""
        return sum(number for name, number in self.calls.items() if name not in TIMED)


class Made(NamedTuple):
    """A client of a play, and what it was made of."""

    source: object
    options: dict[str, Any]
    client: Any


class World:
    """One test: a face, a server, a key prefix of its own, and all that the test starts."""

    def __init__(self, face: str, server: Server) -> None:
        self.face = face
        self.server = server
        self.prefix = f"t{next(_numbers)}:"
        self.strict = False  # each waiter stands in the server's line, also those of one client
        self.foreign: set[str] = set()  # keys that another program wrote
        self.cleans_up = False  # its server is gone, and clean-ups go on for half a minute
        self.book: Book | None = None  # where a first play leaves its clients for the second
        self.case = ""  # of the book
        self.is_second = False
        self.rested_at = 0.0
        self._earlier: list[Made] = []  # the clients of the first play that are not in use yet
        self._made: list[Made] = []
        self._clients: list[Any] = []
        self._jobs: list[Any] = []
        self._own: list[Server] = []

    @property
    def blocking(self) -> bool:
        return self.face == "threads"

    # running

    def run(self, test: Coroutine[Any, Any, None]) -> None:
        """Run a test to its end, and look after it."""
        whole = self._whole(test) if self.book is None else self._one_play(test, self.book)
        if self.book is not None and not self.blocking:
            self.book.runner.run(whole)
        elif self.blocking:
            straight(whole)
        elif self.face == "uvloop":
            import uvloop  # noqa: PLC0415  # as said above

            uvloop.run(whole)
        else:
            asyncio.run(whole)

    async def _one_play(self, test: Coroutine[Any, Any, None], book: Book) -> None:
        """Play the test as one of two; what hooks keep of it ends with it."""
        with book.hooked() as hooks:
            await self._whole(test)
            for hook in hooks:
                await self._is_empty(hook, lambda each=hook: leftovers_of_hook(each))

    async def _whole(self, test: Coroutine[Any, Any, None]) -> None:
        try:
            await self._reopened()
            await test
            self.check_keys()
            await self._keeps_nothing(closed=False)
            await self._left_for_later()
        finally:
            await self._end()
        await self._keeps_nothing(closed=True)
        if not self._own and the_book().is_empty:  # else others' clients have some
            await self.until(lambda: not self.connections(), "closed clients have no connection")

    async def _end(self) -> None:
        for job in self._jobs:
            job.abandon()
        for client in self._clients:
            await client.aclose()
        for server in self._own:
            server.close()

    # played twice; see book.py

    def take_over(self, made: list[Made]) -> None:
        """Use these clients instead of new ones; close them at the end."""
        self.is_second = True
        self._earlier = list(made)

    async def _reopened(self) -> None:
        """Before a second play: its clients have rested, and their servers know nothing."""
        earlier = [made.client for made in self._earlier]
        self._clients += earlier
        await self.until(lambda: now() >= self.rested_at, "its clients have rested")
        for client in earlier:
            await self._is_empty(client, lambda each=client: activities(each))
        if self.is_second:
            self._forget_keys()

    async def _left_for_later(self) -> None:
        """After a first play: end what it left under way, and keep its clients open."""
        if self.book is None or self.is_second:
            return
        for job in self._jobs:
            job.abandon()
        await self.until(lambda: all(job.done for job in self._jobs), "jobs end", seconds=1)
        self.book.revoke_all(self)
        await self.until(lambda: not any(holds_some(each) for each in self._clients), "all ended")
        await self._keeps_nothing(closed=False)
        open_ones = [made for made in self._made if not is_closed(made.client)]
        self.book.leave(self, open_ones)
        self._clients = [each for each in self._clients if is_closed(each)]

    def _forget_keys(self) -> None:
        for key in self.server.command("KEYS", f"{self.prefix}*"):
            self.server.command("DEL", key.encode(errors="surrogateescape"))

    def _again(self, source: object, options: dict[str, Any]) -> Any:
        """Return a client of the first play with these options, or None."""
        for made in self._earlier:
            if made.source == source and made.options == options:
                self._earlier.remove(made)
                return made.client
        return None

    async def _keeps_nothing(self, *, closed: bool) -> None:
        """Fail when a client keeps what it has no use for: see leftovers.py."""
        for client in () if self.cleans_up else self._clients:
            await self._is_empty(client, lambda each=client: self._kept_by(each, closed=closed))

    async def _is_empty(self, thing: object, kept: Callable[[], list[str]]) -> None:
        patience = Patience()
        while found := kept():
            try:
                patience.spend()
            except AssertionError:
                raise AssertionError(f"{thing!r} keeps: " + "; ".join(found)) from None
            await self.tick()

    def _kept_by(self, client: Any, *, closed: bool) -> list[str]:
        if closed:
            return [*leftovers(client, resources=True), *waits_here(client)]
        return kept_while_open(client, waits=not all(job.done for job in self._jobs))

    def start(self, work: Coroutine[Any, Any, Any]) -> Job:
        """Run something beside the test: in a thread, or in a task."""
        job = ThreadJob(work) if self.blocking else TaskJob(work)
        self._jobs.append(job)
        return job

    async def until(
        self, condition: Callable[[], Any], what: str = "", seconds: float = SOON
    ) -> Any:
        """Return the condition's first true value; fail when there is none in time."""
        patience = Patience(what, seconds)
        while not (value := condition()):
            patience.spend()
            await self.tick()
        return value

    async def tick(self) -> None:
        """Let others run for a moment."""
        if self.blocking:
            _never.wait(TICK)
            return
        loop = asyncio.get_running_loop()
        later = loop.create_future()
        loop.call_later(TICK, later.set_result, None)
        await later

    # what tests are made of

    def client(self, source: object = None, **options: Any) -> Any:
        """Return a client of this face, by default over the test's server and prefix."""
        if source is None:
            source = self.server.url
            options = {**getattr(self.server, "client_options", {}), **options}
        options = {"key_prefix": self.prefix, **options}
        if self.strict:
            options.setdefault("cohort", None)
        if (earlier := self._again(source, options)) is not None:
            return earlier
        client: Any
        if self.blocking:
            client = StraightClient(fencelock.Client(source, **options))
        else:
            client = fencelock.AsyncClient(source, **options)
        self._clients.append(client)
        self._made.append(Made(source, options, client))
        return client

    def alone(self, *args: str, **options: Any) -> Server:
        """Start a server of the same kind for this test alone; the test's server from here on."""
        self.server = Server(self.server.binary, args=args, **options)
        self._own.append(self.server)
        return self.server.start()

    def process(self, program: str) -> subprocess.Popen[bytes]:
        """Run a program beside the test; it is told the server and the prefix."""
        command = [sys.executable, "-c", program, self.server.url, self.prefix]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def keys(self, name: str) -> LockKeys:
        return LockKeys(self.prefix, name)

    def key(self, name: str) -> str:
        return self.prefix + name

    # questions to the server

    def holder(self, name: str = "a") -> str | None:
        return self.server.command("GET", self.key(name))

    def pttl(self, name: str) -> int:
        return self.server.command("PTTL", self.key(name))

    def waiting(self, name: str = "a") -> int:
        """How many stand in line, or wait for others of their client that do."""
        keys = self.keys(name)
        return self.server.command("ZCARD", keys.grant[2]) + waiting_locally(keys.lock)

    def holders(self, name: str) -> int:
        """How many leases of a semaphore or reader/writer lock have not ended."""
        seconds, micros = self.server.command("TIME")
        now = f"({seconds}{int(micros):06}"
        return self.server.command("ZCOUNT", self.key(name), now, "+inf")

    def elapsed_ms(self, began: Any) -> int:
        """How long ago the server told this time."""
        now = self.server.command("TIME")
        return (int(now[0]) - int(began[0])) * 1000 + (int(now[1]) - int(began[1])) // 1000

    async def in_line(self, name: str, number: int) -> None:
        """Wait until so many stand in line; no key lacks an expiry meanwhile."""
        await self.until(lambda: self.waiting(name) == number, f"{number} in line")
        self.check_keys()

    def connections(self) -> list[str]:
        """Return fencelock's connections to the server."""
        lines = self.server.command("CLIENT", "LIST").splitlines()
        return [line for line in lines if " name=fencelock " in line]

    async def refreshed(self, client: Any, overview: Overview) -> list[LockStatus]:
        """Return the next look of an overview, taken by a client."""
        from fencelock._core.look.show import Looker  # noqa: PLC0415 - few tests look

        if self.blocking:
            return run_blocking(overview.refresh(Looker(client.inner._port, self.prefix)))
        return await overview.refresh(Looker(client._port(), self.prefix))

    def check_keys(self) -> None:
        """Fail when a key of this test has no expiry, as far as the server still answers."""
        try:
            keys = self.server.command("KEYS", f"{self.prefix}*")
        except (OSError, Refused):
            assert self._own
            return
        for key in set(keys) - self.foreign:
            name = key.encode(errors="surrogateescape")
            assert self.server.command("PTTL", name) != -1, f"{key!r} never expires"

    @contextlib.contextmanager
    def commands(self) -> Iterator[Sent]:
        """Count what reaches the server in a block; what clients did not send is left out."""
        sent, server = Sent(), self.server
        asked = getattr(server, "masters", None) or getattr(server, "nodes", None)
        for each in (nodes := asked or [getattr(server, "master", server)]):
            each.log_calls()
        before = server.commandstats()
        yield sent
        sent.calls = sum((each.script_calls() for each in nodes), Counter())
        counts = {
            name: number - before.get(name, 0) for name, number in server.commandstats().items()
        }
        sent.counts = {
            name: number for name, number in counts.items() if number and name not in NOISE
        }


def straight(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that must not suspend."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    finally:
        work.close()
    raise AssertionError("the blocking face suspended")


# --- beside the test ------------------------------------------------------------------------------


class ThreadJob:
    """A coroutine that runs straight through in a thread."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = straight(self._work)
        except BaseException as error:  # noqa: BLE001 - it is for the test to raise
            self._error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    async def result(self, seconds: float = SOON) -> Any:
        """Return or raise what came out of it."""
        until(lambda: self.done, "its end", seconds)
        if self._error is not None:
            raise self._error
        return self._value

    def abandon(self) -> None:
        """Leave it alone: its client is closed, and the thread is a daemon."""


class TaskJob:
    """A coroutine that runs in a task."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._task = asyncio.ensure_future(work)

    @property
    def done(self) -> bool:
        return self._task.done()

    async def result(self, seconds: float = SOON) -> Any:
        """Return or raise what came out of it."""
        patience = Patience("its end", seconds)
        while not self.done:
            patience.spend()
            await asyncio.wait({self._task}, timeout=LOOK_SECONDS)
        return self._task.result()

    def abandon(self) -> None:
        """End it."""
        self._task.cancel()


Job = ThreadJob | TaskJob


# --- the blocking face, awaitable -----------------------------------------------------------------


class Straight:
    """A handle of threads with the methods of its asyncio twin: all of them send."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)

        async def sent(*args: Any, **options: Any) -> Any:
            return found(*args, **options)

        return sent if callable(found) else found

    async def __aenter__(self) -> Any:
        entered = self.inner.__enter__()
        return StraightLease(entered) if hasattr(entered, "renew") else entered

    async def __aexit__(self, *error: object) -> None:
        return self.inner.__exit__(*error)

    def __repr__(self) -> str:
        return repr(self.inner)


class StraightClient(Straight):
    """``Client`` with the methods of ``AsyncClient``."""

    def __getattr__(self, name: str) -> Any:
        if name not in FACTORIES:
            return super().__getattr__(name)
        make, made = getattr(self.inner, name), MADE.get(name, Straight)
        return lambda *args, **options: made(make(*args, **options))

    def multi(self, names: Any, **options: Any) -> StraightLock:
        if isinstance(names, list):
            names = [getattr(each, "inner", each) for each in names]
        return StraightLock(self.inner.multi(names, **options))

    def rwlock(self, name: str, **options: Any) -> SimpleNamespace:
        made = self.inner.rwlock(name, **options)
        return SimpleNamespace(read=StraightLock(made.read), write=StraightLock(made.write))

    async def aclose(self, **options: Any) -> None:
        self.inner.close(**options)

    async def __aenter__(self) -> Self:
        self.inner.__enter__()
        return self


def decorating(decorate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Let a decorator for functions of threads decorate a coroutine function that runs straight."""

    def outer(function: Any) -> Any:
        @functools.wraps(function)
        def plain(*args: Any, **options: Any) -> Any:
            return straight(function(*args, **options))

        decorated = decorate(plain)

        @functools.wraps(decorated)
        async def awaitable(*args: Any, **options: Any) -> Any:
            return decorated(*args, **options)

        return awaitable

    return outer


class StraightElection(Straight):
    """``Election`` with the methods of ``AsyncElection``."""

    async def changes(self, **options: Any) -> AsyncIterator[Any]:
        for leader in self.inner.changes(**options):
            yield leader


class StraightOnce(Straight):
    """``Once`` with the methods of ``AsyncOnce``."""

    def __call__(self, function: Any) -> Any:
        return decorating(self.inner)(function)

    async def run(self, function: Any, *args: Any, **options: Any) -> fencelock.Outcome:
        return await decorating(lambda plain: functools.partial(self.inner.run, plain))(function)(
            *args, **options
        )


class StraightBarrier(Straight):
    """A barrier, whose questions are properties."""

    @property
    def n_waiting(self) -> Any:
        return self._asked("n_waiting")

    @property
    def broken(self) -> Any:
        return self._asked("broken")

    async def _asked(self, name: str) -> Any:
        return getattr(self.inner, name)


class StraightLock(Straight):
    """``Lock``, ``RLock`` or ``Semaphore`` with the methods of their asyncio twins."""

    @property
    def lease(self) -> StraightLease | None:
        return None if self.inner.lease is None else StraightLease(self.inner.lease)

    def permits(self, n: int) -> Straight:
        return Straight(self.inner.permits(n))


class StraightLease:
    """``Lease`` with the methods of ``AsyncLease``; what sends nothing is as it is."""

    def __init__(self, inner: fencelock.Lease) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def renew(self, *args: Any) -> None:
        self.inner.renew(*args)


# What a client makes that takes more than ``Straight`` to have the methods of its asyncio twin.
MADE = {
    **dict.fromkeys(("lock", "rlock", "semaphore", "bounded_semaphore"), StraightLock),
    "barrier": StraightBarrier,
    "election": StraightElection,
    "once": StraightOnce,
    "locked": decorating,
}
