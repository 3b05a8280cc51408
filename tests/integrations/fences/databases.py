"""Private database servers for tests: each a process of its own in a directory of its own.

They listen on a Unix socket in that directory only, so no port can be taken. A program that the
machine does not have skips the test by its name. As root they run as another user: PostgreSQL
refuses root.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

READY_SECONDS = 60.0
FOLDERS = ("/usr/sbin", "/usr/local/bin", *map(str, Path("/usr/lib").glob("postgresql/*/bin")))


def program(*names: str) -> str:
    """Return the path of the first of these programs that the machine has; skip without any."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *FOLDERS])
    for name in names:
        found = shutil.which(name, path=path)
        if found:
            return found
    pytest.skip(f"this machine has no {names[0]}")


def owner(names: tuple[str, ...]) -> str | None:
    """Return the user that a server runs as: None is our own, and another one for root."""
    if os.geteuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    return next((name for name in (*names, "nobody") if name in known), None)


@contextlib.contextmanager
def directory(user: str | None) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="fl-db-", dir="/tmp"))  # sockets have short paths
    if user is not None:
        shutil.chown(path, user)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def running(command: list[str], user: str | None, log: Path, ready: Callable[[], bool]):
    """Run a server until the block ends; wait until it answers."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, user=user, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=log.parent
        )
    try:
        until = time.monotonic() + READY_SECONDS
        while not ready():
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"{command[0]} did not start:\n{log.read_text(errors='replace')}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def postgresql() -> Iterator[Path]:
    """Start PostgreSQL; give the directory of its socket (user and database: postgres)."""
    initdb, postgres = program("initdb"), program("postgres")
    initdb, postgres = os.path.realpath(initdb), os.path.realpath(postgres)
    user = owner(("postgres",))
    with directory(user) as path:
        data = path / "data"
        subprocess.run(
            [initdb, "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8"],
            user=user,
            cwd=path,
            check=True,
            capture_output=True,
        )
        command = [postgres, "-D", str(data), "-k", str(path), "-h", "", "-F"]
        with running(command, user, path / "log", lambda: _answers_postgresql(path)):
            yield path


def _answers_postgresql(path: Path) -> bool:
    psycopg = pytest.importorskip("psycopg")
    try:
        psycopg.connect(host=str(path), user="postgres", dbname="postgres").close()
    except psycopg.OperationalError:
        return False
    return True


@contextlib.contextmanager
def mariadb() -> Iterator[Path]:
    """Start MariaDB; give the path of its socket (user: root, database: fences)."""
    server, install = program("mariadbd", "mysqld"), program("mariadb-install-db")
    user = owner(("mysql",))
    with directory(user) as path:
        data = path / "data"
        subprocess.run(
            [
                install,
                "--no-defaults",
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
            ],
            user=user,
            cwd=path,
            check=True,
            capture_output=True,
        )
        command = [
            *(server, "--no-defaults", f"--datadir={data}", f"--socket={path}/sql"),
            *("--skip-networking", f"--pid-file={path}/pid", "--innodb-buffer-pool-size=16M"),
            *("--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"),
        ]
        with running(command, user, path / "log", lambda: _answers_mariadb(path / "sql")):
            yield path / "sql"


def _answers_mariadb(path: Path) -> bool:
    pymysql = pytest.importorskip("pymysql")
    with socket.socket(socket.AF_UNIX) as line:  # PyMySQL leaves its socket open when it fails
        try:
            line.connect(str(path))
            line.recv(1)
        except OSError:
            return False
    with pymysql.connect(unix_socket=str(path), user="root") as made, made.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS fences CHARACTER SET utf8mb4")
    return True
