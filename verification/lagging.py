"""A proxy on the way from a master to one replica: it is late, and it can be cut.

    with Lagging(master, seconds=0.02) as line:
        follow(replica, line.port)
        line.cut()        # what is on its way is gone, and nothing passes any more

Only what the master sends is late; what the replica acknowledges passes at once.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from typing import Self

from fencelock._runtime.clock import now
from tests.servers import Server

RECV = 65536


class Lagging:
    """Listens on a free port of this host for one replica at a time."""

    def __init__(self, master: Server, *, seconds: float = 0.0) -> None:
        self._master = master
        self._seconds = seconds
        self._open = True
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Let nothing pass from here on, also not what is on its way; both ends stay open."""
        self._open = False

    def _accept(self) -> None:
        while True:
            try:
                replica, _ = self._listener.accept()
                master = socket.create_connection(("127.0.0.1", self._master.port))
            except OSError:
                return
            for each in (replica, master):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(each)
            late = _Late(replica, self)
            threading.Thread(target=self._read, args=(master, late.put), daemon=True).start()
            threading.Thread(target=self._read, args=(replica, master.sendall), daemon=True).start()

    def _read(self, source: socket.socket, pass_on: object) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(RECV):
                if self._open:
                    pass_on(data)  # type: ignore[operator]  # see _accept

    @property
    def seconds(self) -> float:
        """Return how late it is."""
        return self._seconds

    @property
    def open(self) -> bool:
        """Return True if anything passes."""
        return self._open

    def close(self) -> None:
        """Close both ends."""
        self._open = False
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Late:
    """Bytes on their way to the replica, each with the instant of its arrival."""

    def __init__(self, replica: socket.socket, line: Lagging) -> None:
        self._replica = replica
        self._line = line
        self._way: deque[tuple[float, bytes]] = deque()
        self._more = threading.Condition()
        if line.seconds:
            threading.Thread(target=self._deliver, daemon=True).start()

    def put(self, data: bytes) -> None:
        if not self._line.seconds:
            self._replica.sendall(data)
            return
        with self._more:
            self._way.append((now() + self._line.seconds, data))
            self._more.notify()

    def _deliver(self) -> None:
        with contextlib.suppress(OSError):
            while self._line.open:
                with self._more:
                    while not self._way:
                        self._more.wait()
                    at, data = self._way.popleft()
                    while (left := at - now()) > 0:
                        self._more.wait(left)
                if self._line.open:
                    self._replica.sendall(data)
