"""TLS for tests: a certificate, and a front that speaks TLS for a server that was built without.

    with Front(server, folder) as front:
        client = fencelock.Client(front.url)

The server itself sees plain connections, and may be stopped, killed and started as ever.
"""

from __future__ import annotations

import contextlib
import functools
import select
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Self

import pytest

from tests.servers import Server

_RECV = 65536


@functools.cache
def certificate(folder: Path) -> Path:
    """Make a certificate for localhost that is its own authority; the key stands beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine makes certificates")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run([*command, *subject, *files], check=True, capture_output=True)
    return folder / "cert.pem"


class Front:
    """Takes TLS connections and passes their bytes to the server, a plain connection for each.

    ``record``: cut answers into TLS records of so many bytes, which arrive together.
    """

    def __init__(self, server: Server, folder: Path, *, record: int = _RECV) -> None:
        self._server = server
        self._record = record
        cert = certificate(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, folder / "key.pem")
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        port = self._listener.getsockname()[1]
        self.url = f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={cert}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        """Reach the server first: where it is not, there is no handshake either."""
        where = ("127.0.0.1", self._server.port)
        with line, contextlib.suppress(OSError), socket.create_connection(where) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._context.wrap_socket(line, server_side=True) as tls:
                _pass_on(tls, plain, self._record)


def _pass_on(tls: ssl.SSLSocket, plain: socket.socket, record: int) -> None:
    """Pass bytes both ways until one side ends: one thread, as a TLS socket is not for two."""
    while True:
        ready = [tls] if tls.pending() else select.select([tls, plain], [], [])[0]
        for side, other in ((tls, plain), (plain, tls)):
            if side in ready:
                data = side.recv(_RECV)
                if not data:
                    return
                _send(other, data, record)


def _send(side: socket.socket, data: bytes, record: int) -> None:
    cork = getattr(socket, "TCP_CORK", None)  # Linux: nothing leaves before it is pulled out
    if cork is None or record >= len(data):
        side.sendall(data)
        return
    side.setsockopt(socket.IPPROTO_TCP, cork, 1)
    for begin in range(0, len(data), record):
        side.sendall(data[begin : begin + record])
    side.setsockopt(socket.IPPROTO_TCP, cork, 0)
