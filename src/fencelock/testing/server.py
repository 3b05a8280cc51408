"""The private server as tests see it: an address, and what can happen to it.

Rules of this file:

- Clients of a test reach the server by a relay of this process. What is done to the relay happens
  to this process alone, although all processes of a run share one server.
- A process has a database of its own: tests that run beside each other do not meet.
- What a helper does to a lock is done without the relay, so that it works while that is cut.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from fencelock import Client
from fencelock._core import events
from fencelock._core.events import LockEvent
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold, lose
from fencelock._io import process_ports
from fencelock._io.port_asyncio import AioPort
from fencelock._io.wire import INCOMPLETE, ReplyError, pack, reader
from fencelock._runtime.descriptors import own
from fencelock.errors import FencelockError, NotAcquired
from fencelock.options import KEY_PREFIX
from fencelock.testing.relay import Relay

T = TypeVar("T")

ANOTHER = "another client, says a test"
ANSWER_SECONDS = 5.0


class _Line:
    """A plain connection to one database of the server."""

    def __init__(self, path: Path, database: int) -> None:
        self._socket = own(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        self._socket.settimeout(ANSWER_SECONDS)
        self._socket.connect(str(path))
        self.command(b"SELECT", b"%d" % database)

    def command(self, *words: bytes) -> Any:
        """Send a command and return its reply."""
        self._socket.sendall(pack(words))
        parser = reader()
        while (reply := parser.gets()) is INCOMPLETE:
            parser.feed(self._socket.recv(65536))
        if isinstance(reply, ReplyError):
            try:
                raise reply
            finally:
                del reply
        return reply

    def close(self) -> None:
        """Close it."""
        self._socket.close()


class PrivateServer:
    """A real server for the tests of one process.

    Give ``url`` to the program under test. The fixture ``fencelock_server`` is one.
    """

    def __init__(self, path: Path, database: int) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="fencelock-")
        self._direct = f"unix://{path}?db={database}"
        self._shared = f"unix://{path}?db=0"
        self._relay = Relay(f"{self._own.name}/s", str(path))
        self._line = _Line(path, database)
        self.url: str = f"unix://{self._relay.path}?db={database}"
        self._drops: list[LockEvent] = []
        events.install(self._note)

    def close(self) -> None:
        """Leave the server."""
        events.uninstall(self._note)
        self._relay.close()
        self._line.close()
        self._own.cleanup()

    def clear(self) -> None:
        """Remove all that this process has on the server."""
        self._line.command(b"FLUSHDB")

    # -- what can happen to the server --------------------------------------------------------

    @contextlib.contextmanager
    def freeze(self) -> Iterator[None]:
        """Let the server answer nothing in a block, as when its machine is stopped.

        What was sent to it is answered afterwards.
        """
        self._relay.hold_up()
        try:
            yield
        finally:
            self._relay.go_on()

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """Make the server unreachable in a block: connections break, new ones are refused."""
        self._relay.cut()
        try:
            yield
        finally:
            self._relay.restore()

    # -- what can happen to a lock ------------------------------------------------------------

    @contextlib.contextmanager
    def hold(
        self, name: str, *, key_prefix: str = KEY_PREFIX, timeout: float = 1.0
    ) -> Iterator[Any]:
        """Let another client hold the lock ``name`` in a block; yields that client's lease.

        Raises:
            NotAcquired: it is held, and was not released within ``timeout`` seconds.
        """
        client = Client(self._direct, key_prefix=key_prefix, label=ANOTHER)
        lock = client.lock(name)
        try:
            if not _in_thread(lambda: lock.acquire(timeout=timeout)):
                raise NotAcquired(
                    f"{name!r} is held, so that no other client can hold it", name=name
                )
            yield lock.lease
        finally:
            if lock.lease is not None:
                with contextlib.suppress(FencelockError):  # the test let it expire
                    _in_thread(lock.release)
            _in_thread(client.close)

    def expire(self, name: str, *, key_prefix: str = KEY_PREFIX) -> None:
        """End the lease of ``name`` on the server, as if its ttl were over; notify no client.

        It learns of it at its next renewal or release, and others may be granted before that: use
        it to test what fences are for. Waiters notice within 2 s.

        Raises:
            LookupError: it is not held.
        """
        if not self._line.command(b"DEL", LockKeys(key_prefix, name).lock):
            raise LookupError(f"{name!r} is not held, so that no lease of it can expire")

    def lose(self, lease: Any) -> None:
        """Have a lease lost now: its holder is notified, and the next client may be granted.

        Raises:
            TypeError: it is no lease.
            ValueError: it has ended already.
        """
        parts = getattr(lease, "_leases", (lease,))  # of a multi
        for part in parts:
            if not isinstance(part, Hold):
                raise TypeError(f"lose() needs a lease, not {lease!r}")
            if part.released or part.lost:
                raise ValueError(f"lose() needs a lease that is held, not {part!r}")
            _in_its_loop(part.port, part)

    # -- what is left of a test ---------------------------------------------------------------

    def held(self) -> dict[Hold, str]:
        """Return what clients of this process hold on this server, with words that name it."""
        found: dict[Hold, str] = {}
        for port in process_ports.everywhere():
            if self._relay.path in port.label:
                found |= {hold: _named(hold) for hold in process_ports.held_by(port)}
        return found

    def dropped(self, *, but: Iterable[Hold]) -> list[str]:
        """Return what stays held though its handle is gone, since the last call; without ``but``.

        No code can release these any more; their leases end by their ttl.
        """
        noted, self._drops = self._drops, []
        known = {(hold.name, hold.fence) for hold in but}
        return [
            f"{each.name!r} (fence {each.fence}), whose handle was dropped"
            for each in noted
            if (each.name, each.fence) not in known and self._is_held(each)
        ]

    def _note(self, event: LockEvent) -> None:
        if event.reason == "dropped" and self._relay.path in event.server:
            self._drops.append(event)

    def _is_held(self, event: LockEvent) -> bool:
        prefix = event.client.decode().rpartition("@")[0]
        with Client(self._direct, key_prefix=prefix) as client:
            return client.status(event.name).held

    # -- once a run ---------------------------------------------------------------------------

    def once_per_run(self, name: str, function: Callable[[], T]) -> T:
        """Run a function in one process of the test run; return its result in each.

        The others wait for it; when it fails, the next one runs it. The result must be a value that
        JSON can represent.
        """
        with Client(self._shared, key_prefix="run:") as client:
            once = client.once(name, within=86400, wait=True)
            value: T = once.run(function).value
            return value


def _in_thread(call: Callable[[], T]) -> T:
    """Make a short blocking call in a thread: an event loop may run in this one."""
    result: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            result.append(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where the call was made
            errors.append(error)

    thread = threading.Thread(target=run, name="fencelock-testing", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors.pop()
    return result[0]


def _in_its_loop(port: Any, hold: Hold) -> None:
    """End a lease where its client works: a loop's connection is used in its loop only."""
    if not isinstance(port, AioPort) or port.is_here:
        _lose(port, hold)
        return
    done = threading.Event()

    def there() -> None:
        _lose(port, hold)
        done.set()

    port.loop.call_soon_threadsafe(there)
    done.wait(ANSWER_SECONDS)


def _lose(port: Any, hold: Hold) -> None:
    lose(port, hold, "revoked", port.now(), "a test asked for it")
    port.run_in_background(*hold.terms.release(hold))


def _named(hold: Hold) -> str:
    holder = hold.info.decode(errors="replace")
    return f"{hold.name!r} (fence {hold.fence}, by {holder})"
