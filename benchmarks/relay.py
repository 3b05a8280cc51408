"""A network in the place of the loopback: a process that stands before servers, and delays.

It counts round trips on the wire: a question that is asked after an answer has arrived begins one.
What is asked at once, of however many servers, is one. That is true of one client at a time.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import NamedTuple

from wire import Address, dial

ONE_WAY_SECONDS = 0.002
ANSWER_SECONDS = 10.0
CHUNK_BYTES = 1 << 16


class Network(NamedTuple):
    """The servers as they are seen from afar, and who asks how many round trips there were."""

    address: Address
    round_trips: Callable[[], int]


@contextlib.contextmanager
def far(address: Address) -> Iterator[Network]:
    """Lend the servers behind a network. Its process is idle while nothing is under way."""
    targets = [f"{node.host}:{node.port}" for node in address.nodes]
    process = subprocess.Popen(
        [sys.executable, __file__, *targets],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C is for the run, which then ends its network
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked, told = process.stdin, process.stdout

    def round_trips() -> int:
        print(file=asked, flush=True)
        return int(told.readline())

    try:
        first, *more = [Address("127.0.0.1", int(port)) for port in told.readline().split()]
        yield Network(first._replace(more=tuple(more)), round_trips)
    finally:
        asked.close()
        process.wait(ANSWER_SECONDS)
        told.close()


# --- in the process of the network ----------------------------------------------------------------


class Relay:
    """All connections, and what is under way on them."""

    def __init__(self, targets: Sequence[Address]) -> None:
        self._targets = {socket.create_server(("127.0.0.1", 0)): each for each in targets}
        self._others: dict[socket.socket, socket.socket] = {}
        self._clients: set[socket.socket] = set()
        # The delay is one for all, so that what was read first is due first.
        self._under_way: deque[tuple[float, socket.socket, socket.socket, bytes]] = deque()
        self._round_trips, self._answered = 0, True

    @property
    def ports(self) -> list[int]:
        return [listener.getsockname()[1] for listener in self._targets]

    def serve(self) -> None:
        """Go on until the parent closes its end; a line from it asks for the count."""
        while True:
            # select counts microseconds; epoll, and so selectors, rounds up to milliseconds.
            due = max(0.0, self._under_way[0][0] - monotonic()) if self._under_way else None
            ready, _, _ = select.select([0, *self._targets, *self._others], [], [], due)
            for one in ready:
                if one == 0:
                    if not os.read(0, CHUNK_BYTES):
                        return
                    print(self._round_trips, flush=True)
                elif one in self._targets:
                    self._accept(one)
                elif one in self._others:
                    self._read(one)
            self._deliver()

    def _accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = dial(self._targets[listener])
        self._others |= {client: server, server: client}
        self._clients.add(client)

    def _read(self, source: socket.socket) -> None:
        try:
            data = source.recv(CHUNK_BYTES)
        except ConnectionError:
            data = b""
        if source in self._clients and data and self._answered:
            self._round_trips, self._answered = self._round_trips + 1, False
        target = self._others[source] if data else self._others.pop(source)
        self._under_way.append((monotonic() + ONE_WAY_SECONDS, source, target, data))

    def _deliver(self) -> None:
        while self._under_way and self._under_way[0][0] <= monotonic():
            _, source, target, data = self._under_way.popleft()
            if not data:  # the connection has ended, and so it does at its other end
                self._others.pop(target, None)
                self._clients -= {source, target}
                source.close()
                target.close()
                continue
            self._answered = self._answered or target in self._clients
            with contextlib.suppress(OSError):  # that end is gone already
                target.sendall(data)


def main() -> None:
    hosts = [target.rpartition(":") for target in sys.argv[1:]]
    relay = Relay([Address(host, int(port)) for host, _, port in hosts])
    print(*relay.ports, flush=True)
    relay.serve()


if __name__ == "__main__":
    main()
