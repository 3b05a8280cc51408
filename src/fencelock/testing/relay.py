"""A relay to a server that can be cut or held up, without touching the server itself.

Rules of this file:

- One thread owns all sockets. Other threads pass it their actions, and wait until they are done.
- While it is held up, nothing is read or accepted, as by a server that was stopped.
- While it is cut, connections are closed and new ones are refused, as by a server that is gone.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable

from fencelock._runtime.descriptors import own

CHUNK_BYTES = 65536
# A peer that reads nothing for so long is dropped.
SEND_SECONDS = 5.0


class Relay:
    """Passes on data between a Unix socket of its own and that of the server."""

    def __init__(self, path: str, target: str) -> None:
        self.path: str = path
        self._target = target
        self._peers: dict[socket.socket, socket.socket] = {}
        self._listener: socket.socket | None = None
        self._actions: deque[tuple[Callable[[], object], threading.Event]] = deque()
        self._selector = selectors.DefaultSelector()
        self._nudge, self._nudged = map(own, socket.socketpair())
        self._selector.register(self._nudged, selectors.EVENT_READ)
        self._open = True
        self._listen()
        self._thread = threading.Thread(target=self._run, name="fencelock-relay", daemon=True)
        self._thread.start()

    # -- what other threads ask for -----------------------------------------------------------

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        self._do(self._refuse)

    def restore(self) -> None:
        """Accept connections again."""
        self._do(self._listen)

    def hold_up(self) -> None:
        """Pass nothing on."""
        self._do(lambda: self._each(self._unwatch))

    def go_on(self) -> None:
        """Pass on what has waited, and all that comes."""
        self._do(lambda: self._each(self._watch))

    def close(self) -> None:
        """End the thread and all connections."""
        self._do(self._end)
        self._thread.join(SEND_SECONDS)

    def _do(self, action: Callable[[], object]) -> None:
        done = threading.Event()
        self._actions.append((action, done))
        self._nudge.send(b"!")
        if not done.wait(SEND_SECONDS * 2):
            raise RuntimeError("the way to the test's server does not answer")

    # -- in its own thread --------------------------------------------------------------------

    def _run(self) -> None:
        while self._open:
            for key, _ in self._selector.select():
                line = key.fileobj
                if line is self._nudged:
                    self._nudged.recv(CHUNK_BYTES)
                    self._fulfil()
                elif line is self._listener:
                    self._accept(self._listener)
                elif isinstance(line, socket.socket) and line in self._peers:
                    self._pass_on(line)

    def _fulfil(self) -> None:
        while self._actions:
            action, done = self._actions.popleft()
            action()
            done.set()

    def _each(self, change: Callable[[socket.socket], None]) -> None:
        for line in (self._listener, *self._peers):
            if line is not None:
                change(line)

    def _watch(self, line: socket.socket) -> None:
        with contextlib.suppress(KeyError):  # it is watched already
            self._selector.register(line, selectors.EVENT_READ)

    def _unwatch(self, line: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(line)

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = own(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self._listener.bind(self.path)
            self._listener.listen(1024)
            self._watch(self._listener)

    def _accept(self, listener: socket.socket) -> None:
        near = own(listener.accept()[0])
        far = own(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        for line in (near, far):
            line.settimeout(SEND_SECONDS)
        try:
            far.connect(self._target)
        except OSError:
            near.close()
            far.close()
            return
        self._peers |= {near: far, far: near}
        self._watch(near)
        self._watch(far)

    def _pass_on(self, line: socket.socket) -> None:
        peer = self._peers[line]
        try:
            data = line.recv(CHUNK_BYTES)
            if data:
                peer.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._drop(line, peer)

    def _drop(self, *lines: socket.socket) -> None:
        for line in lines:
            self._unwatch(line)
            self._peers.pop(line, None)
            line.close()

    def _refuse(self) -> None:
        if self._listener is not None:
            self._unwatch(self._listener)
            self._listener.close()
            self._listener = None
            os.unlink(self.path)  # noqa: PTH108 - paths of sockets are plain strings here
        self._drop(*self._peers)

    def _end(self) -> None:
        self._refuse()
        self._open = False
        self._selector.close()
        self._nudged.close()
        self._nudge.close()
