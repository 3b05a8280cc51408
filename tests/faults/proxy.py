"""A proxy between a client and a real server that loses what a network can lose.

    with Proxy(server) as proxy:
        fault = proxy.on("acquire", "drop_reply", then="rst")
        ...                      # the next acquire runs, its answer never arrives
        fault.wait()

Operations are named after the script that runs (by its digest or its source), or after the
command. What a fault does:

- ``drop_request``  the server never sees it;
- ``drop_reply``    it runs, its answer is thrown away;
- ``delay_request``, ``delay_reply``  it arrives ``seconds`` later, or when ``release()`` is called;
- ``late_request``  the client's connection is reset at once, and yet the server sees the request
  later, as behind a balancer;
- ``error``         the client gets ``text`` for an answer, the server sees nothing;
- ``drop_push``     a published message is lost (operation ``granted`` or ``revoked``), no more.

After a drop the connection ends as ``then`` says: ``close``, ``rst``, ``silence`` (requests still
run, no answer ever comes) or ``blackhole`` (nothing passes either way): a stream that lost one
message never delivers a later one.
"""

import contextlib
import socket
import struct
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field

from tests.faults.resp import Splitter, news, operation

RECV = 65536
WAIT = 10.0


@dataclass(eq=False)
class Fault:
    """One thing that is to happen to the n-th operation of a name, and to ``times - 1`` more."""

    operation: str
    action: str
    then: str = "close"
    nth: int = 1
    times: int = 1
    seconds: float = WAIT
    text: str = ""
    hit: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)

    def wait(self):
        """Return once it happened."""
        assert self.hit.wait(WAIT), f"no {self.operation} came to {self.action}"

    def release(self):
        """End a delay."""
        self.go.set()

    def arrive(self):
        """End the delay of a late request; return once it was sent to the server."""
        self.go.set()
        assert self.done.wait(WAIT), f"the late {self.operation} was not sent"


class Proxy:
    """Listens on a free TCP port of this host; ``server`` is a ``tests.servers.Server``."""

    def __init__(self, server):
        self.server = server
        self.seen = Counter()
        self.new_connections = "pass"  # or "refuse", or "blackhole"
        self.lag = 0.0  # every request arrives so many seconds later, as at a far server
        self.requests_flow = threading.Event()
        self.answers_flow = threading.Event()
        self.heal()
        self._lock = threading.Lock()
        self._faults = []
        self._links = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        threading.Thread(target=self._accept, daemon=True).start()

    def on(self, name, action, **how):
        """Have something happen to an operation; return the fault, to be waited for."""
        fault = Fault(name, action, **how)
        with self._lock:
            self._faults.append(fault)
        return fault

    def cut(self, *, requests=True, answers=True):
        """Hold what is sent that way until ``heal``, as a network does that comes back."""
        if requests:
            self.requests_flow.clear()
        if answers:
            self.answers_flow.clear()

    def heal(self):
        """Let everything flow, also what was held."""
        self.requests_flow.set()
        self.answers_flow.set()

    def drop_all(self, then="rst"):
        """End every open connection."""
        for link in self.links():
            link.end(then)

    def forget(self):
        """Drop the faults that did not happen yet."""
        with self._lock:
            self._faults.clear()

    def links(self):
        with self._lock:
            return [link for link in self._links if not link.ended]

    def take(self, name):
        """Count an operation and return the fault that it meets, if any."""
        with self._lock:
            self.seen[name] += 1
            for fault in self._faults:
                if fault.operation == name:
                    fault.nth -= 1
                    if fault.nth <= 0:
                        return self._hit(fault)
        return None

    def _hit(self, fault):
        fault.times -= 1
        if fault.times == 0:
            self._faults.remove(fault)
        fault.hit.set()
        return fault

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            link = Link(self, client)
            with self._lock:
                self._links = [each for each in self._links if not each.ended] + [link]
            link.start()

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.heal()
        self.drop_all("close")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Link:
    """One connection through the proxy: a thread each way."""

    def __init__(self, proxy, client):
        self.proxy = proxy
        self.client = client
        self.server = None
        self.ended = False
        self._deaf = self._mute = False  # requests, answers are thrown away
        self._asked = deque()  # the faults of the requests that have no answer yet
        self._lock = threading.Lock()

    def start(self):
        match self.proxy.new_connections:
            case "refuse":
                self.end("rst")
                return
            case "blackhole":
                self.end("blackhole")
        try:
            server = socket.create_connection(("127.0.0.1", self.proxy.server.port), WAIT)
        except OSError:
            self.end("rst")
            return
        server.settimeout(None)
        with self._lock:
            if self.ended:  # by who ends all connections, while this one was opened
                server.close()
                return
            for sock in (self.client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.server = server
        pump = threading.Thread(target=self._pump, args=(self.client, self._request), daemon=True)
        pump.start()
        pump = threading.Thread(target=self._pump, args=(self.server, self._answer), daemon=True)
        pump.start()

    def end(self, then):
        """End as a fault says; a muted link stays open until the client closes it."""
        with self._lock:
            self._mute = True
            self._deaf = self._deaf or then != "silence"
            if then in {"silence", "blackhole"} or self.ended:
                return
            self.ended = True
        if then == "rst":
            _reset_on_close(self.client)
        for sock, how in ((self.client, socket.SHUT_RD), (self.server, socket.SHUT_RDWR)):
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(how)  # wakes the thread that reads it
                sock.close()

    def _pump(self, source, handle):
        splitter = Splitter()
        try:
            while data := source.recv(RECV):
                for message in splitter.feed(data):
                    handle(message)
        except OSError:
            pass
        finally:
            if source is self.client or not self._mute:
                self.end("close")

    def _request(self, message):
        if self.proxy.lag:
            time.sleep(self.proxy.lag)
        self.proxy.requests_flow.wait()
        if self._deaf:
            return  # a fault is for a request that gets this far
        fault = self.proxy.take(operation(message))
        action = fault.action if fault else ""
        if action == "drop_request":
            self.end("blackhole" if fault.then == "silence" else fault.then)
            return
        if action == "error":
            self.client.sendall(b"-%b\r\n" % fault.text.encode())
            return
        if action == "late_request":
            self._reset_client()
        if action in {"delay_request", "late_request"}:
            fault.go.wait(fault.seconds)
        self._asked.append(fault)
        self.server.sendall(message)
        if action == "late_request":
            self.server.shutdown(socket.SHUT_WR)
            fault.done.set()

    def _reset_client(self):
        """Reset the client's connection; the server's stays."""
        with self._lock:
            self._mute = True
        _reset_on_close(self.client)
        self.client.close()

    def _answer(self, message):
        told = news(message)
        fault = self.proxy.take(told) if told else self._asked.popleft()
        action = fault.action if fault else ""
        if action == "delay_reply":
            fault.go.wait(fault.seconds)
        self.proxy.answers_flow.wait()
        if action == "drop_reply":
            self.end(fault.then)
        if action not in {"drop_reply", "drop_push"} and not self._mute:
            self.client.sendall(message)


def _reset_on_close(sock):
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
