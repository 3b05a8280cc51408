"""A way to a server that can be closed to all but fencelock's connections.

Replicas and Sentinels come through it, as clients do; ``cut`` parts the former from the server, as
a network does that breaks between two machines, while a client on this side goes on.
"""

import contextlib
import socket
import threading

RECV = 65536
OURS = b"fencelock"  # in the greeting of each of our connections


class Gate:
    """Listens on a free TCP port; passes bytes on, as they are."""

    def __init__(self, server):
        self._server = server
        self._open = threading.Event()
        self._open.set()
        self._socks = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Let nothing through any more but fencelock's connections, old and new."""
        self._open.clear()

    def heal(self):
        """Let everything through again, also what waited."""
        self._open.set()

    def close(self):
        self.heal()
        for sock in (self._listener, *self._socks):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._socks.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with contextlib.suppress(OSError):
            first = client.recv(RECV)
            ours = OURS in first
            if not ours:
                self._open.wait()
            server = socket.create_connection(("127.0.0.1", self._server.port), 5)
            server.settimeout(None)
            self._socks.append(server)
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.sendall(first)
            back = threading.Thread(target=self._pump, args=(server, client, ours), daemon=True)
            back.start()
            self._pump(client, server, ours)

    def _pump(self, source, sink, ours):
        with contextlib.suppress(OSError):
            while data := source.recv(RECV):
                if not ours:
                    self._open.wait()
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
