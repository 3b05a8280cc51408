"""Real servers for tests: every program on this machine, each test with processes of its own.

    for binary in binaries():
        with Server(binary, persistent=True) as server:
            server.command("SET", "key", "value")
            server.kill()
            server.restart()

Nothing stays behind, however a run ends: one guard process holds the other end of a pipe of ours,
and when the pipe closes it kills the servers and removes their directories.

FENCELOCK_TEST_SERVERS may name the programs to test instead (paths, separated as in PATH).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fencelock._io import wire
from fencelock.embedded.binaries import Binary, candidates, probe
from fencelock.scripts import BY_DIGEST

READY_SECONDS = 30.0  # a busy machine, half as fast
_PORT_TRIES = 10
CALLS_MAX = 100_000  # commands that a test's block may have


@dataclass(frozen=True)
class ServerBinary:
    """A server program under test; ``name`` is for test ids, as in ``valkey-9.1.2``."""

    name: str
    path: str
    release: tuple[int, ...]

    def __str__(self) -> str:
        return self.name

    @property
    def is_valkey(self) -> bool:
        return self.name.startswith("valkey")


@functools.cache
def binaries() -> list[ServerBinary]:
    """Return every distinct server on this machine that fencelock supports, newest Valkey first."""
    named = os.environ.get("FENCELOCK_TEST_SERVERS", "").split(os.pathsep)
    found: dict[str, ServerBinary] = {}
    for path in filter(None, named) if any(named) else candidates():
        binary = probe(path, time.monotonic() + READY_SECONDS)
        if isinstance(binary, Binary) and not binary.unfit():
            name = f"{binary.flavour.lower()}-{binary.version}"
            found.setdefault(name, ServerBinary(name, binary.path, binary.release))
    return sorted(found.values(), key=lambda one: (one.is_valkey, one.release), reverse=True)


class Refused(Exception):
    """The server's error reply."""


class Runs:
    """What starts with a block and is ended with it, also if it cannot start."""

    start: Callable[[], Self]
    close: Callable[[], None]

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()


class Server(Runs):
    """One server process in a private directory, on a Unix socket and on a TCP port of 127.0.0.1.

    ``persistent``: keep an append-only log, so that a restart brings the data back. ``args``: more
    options for the server; the last word on each counts. ``port``: this one, not a free one.
    ``environment``: what its process has beside ours.
    """

    def __init__(
        self,
        binary: ServerBinary | None = None,
        *,
        port: int | None = None,
        unix: bool = True,
        args: Sequence[str] = (),
        persistent: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = {**os.environ, **(environment or {})}
        self.binary = binary or binaries()[0]
        self.directory = Path(tempfile.mkdtemp(prefix="fencelock-test-"))
        self.socket = self.directory / "s" if unix else None
        self._reserved = None if port else reserve()
        self.port: int = port or _port_of(self._reserved)
        self._options = [*_options(self.binary, persistent=persistent), *args]
        self._process: subprocess.Popen[bytes] | None = None
        _guard().watch(self.directory)

    # addresses

    @property
    def url(self) -> str:
        return f"unix://{self.socket}?db=0" if self.socket else self.tcp_url

    @property
    def tcp_url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    # life

    def start(self) -> Self:
        """Start the process and return once it answers; a fixed port that is taken is an error."""
        for _ in range(_PORT_TRIES):
            self._spawn()
            if self._wait_until_ready():
                return self
            if self._reserved is None or "already in use" not in self.log:
                break
            self._reserve_another()
        raise RuntimeError(f"{self.binary} did not start:\n{self.log}")

    def stop(self) -> None:
        """End the process cleanly; its directory stays for a restart."""
        if self._process is None:
            return
        self._send(signal.SIGTERM, signal.SIGCONT)
        try:
            self._process.wait(READY_SECONDS)
        except subprocess.TimeoutExpired:
            self._send(signal.SIGKILL)
        self._reap()

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash would."""
        if self._process is not None:
            self._send(signal.SIGKILL)
            self._reap()

    def restart(self) -> None:
        """Stop, if it still runs, and start again on the same addresses."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stop the process with SIGSTOP; return once it stands still."""
        self._send(signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Let a paused process run on."""
        self._send(signal.SIGCONT)

    def close(self) -> None:
        """End the process and remove everything it had."""
        self.kill()
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        shutil.rmtree(self.directory, ignore_errors=True)
        _guard().forget(self.directory)

    # questions, each on a connection of its own

    def command(self, *words: object) -> Any:
        """Run one command and return its reply decoded: str, int, None, list or dict.

        Raises:
            Refused: the server answered with an error.
            OSError: there is no answer, within half a minute.
        """
        address = str(self.socket) if self.socket else ("127.0.0.1", self.port)
        family = socket.AF_UNIX if self.socket else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as line:
            line.settimeout(READY_SECONDS)
            line.connect(address)
            line.sendall(_encoded(words))
            return _reply_on(line)

    def flushall(self) -> None:
        """Remove all keys."""
        self.command("FLUSHALL")

    def info(self, section: str) -> dict[str, str]:
        """Return one section of INFO."""
        lines = self.command("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def commandstats(self) -> dict[str, int]:
        """Return how often each command ran since the start or ``CONFIG RESETSTAT``, lower case."""
        stats = self.info("commandstats").items()
        return {
            name.removeprefix("cmdstat_").lower(): int(text.split(",")[0].removeprefix("calls="))
            for name, text in stats
        }

    def log_calls(self) -> None:
        """Log each command from here on; see ``script_calls``."""
        for name, number in (("log-slower-than", 0), ("max-len", CALLS_MAX)):
            self.command("CONFIG", "SET", f"slowlog-{name}", number)
        self.command("SLOWLOG", "RESET")

    def script_calls(self) -> Counter[str]:
        """Return how often clients called each script since ``log_calls``, and end the log."""
        logged = self.command("SLOWLOG", "GET", CALLS_MAX)
        self.command("CONFIG", "SET", "slowlog-log-slower-than", 10_000)
        return Counter(_script(*words[:2]) for _, _, _, words, *_ in logged if _calls(words))

    # the process

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{self.binary} is not running")
        return self._process

    def _spawn(self) -> None:
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command_line(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,  # a Ctrl-C is for the test, not for its server
            )
        _guard().watch(self.directory, self._process.pid)

    def _command_line(self) -> list[str]:
        where = ["--port", str(self.port), "--dir", str(self.directory)]
        where += ["--unixsocket", str(self.socket)] if self.socket else []
        return [self.binary.path, *where, *self._options]

    def _wait_until_ready(self) -> bool:
        """Return True once it answers; False, and reaped, when it ended instead."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self._answers():
                return True
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._running.wait(0.001)
                self._reap()
                return False
        self.kill()
        return False

    def _answers(self) -> bool:
        try:
            # On a taken port somebody else's server would answer; and loading is not ready.
            ours: bool = self.command("CONFIG", "GET", "dir")[1] == str(self.directory)
            return ours and self.command("PING") == "PONG"
        except (OSError, Refused):
            return False

    def _reserve_another(self) -> None:
        if self._reserved is not None:
            self._reserved.close()
        self._reserved = reserve()
        self.port = _port_of(self._reserved)

    def _send(self, *numbers: signal.Signals) -> None:
        for number in numbers:
            self._running.send_signal(number)

    def _reap(self) -> None:
        self._running.wait(READY_SECONDS)
        _guard().watch(self.directory)  # no process any more: its number may become another's
        self._process = None


def _options(binary: ServerBinary, *, persistent: bool) -> list[str]:
    options = ["--bind", "127.0.0.1", "--save", "", "--unixsocketperm", "600"]
    options += ["--appendonly", "yes" if persistent else "no", "--appendfsync", "no"]
    if binary.release >= (7,):
        options += ["--enable-debug-command", "yes"]
    return options


def reserve() -> socket.socket:
    """Bind a free port and keep it: nobody else is given it, yet a server may listen on it."""
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    line.bind(("127.0.0.1", 0))
    return line


def _port_of(line: socket.socket | None) -> int:
    return line.getsockname()[1] if line else 0


# replies as assertions read them: text in the place of bytes


def _encoded(words: tuple[object, ...]) -> bytes:
    return wire.pack([word if isinstance(word, bytes) else str(word).encode() for word in words])


def _reply_on(line: socket.socket) -> Any:
    parser = wire.reader()
    while (reply := parser.gets()) is wire.INCOMPLETE:
        data = line.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        parser.feed(data)
    if isinstance(reply, wire.ReplyError):
        raise Refused(str(reply))
    return _decoded(reply)


def _decoded(reply: Any) -> Any:
    match reply:
        case bytes():
            return reply.decode(errors="surrogateescape")
        case list():
            return [_decoded(each) for each in reply]
        case wire.ReplyError():  # inside an array an error is a value
            return Refused(str(reply))
    return reply


# the guard

_GUARD = """
import os, shutil, signal, sys
watched = {}
for line in sys.stdin:
    pid, directory = line.rstrip("\\n").split(" ", 1)
    watched[directory] = int(pid)
def names(pid, directory):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return directory in file.read()
    except OSError:
        return False
for directory, pid in watched.items():
    if pid < 0:
        continue
    here = [int(one) for one in os.listdir("/proc") if one.isdigit() and names(one, directory)]
    for one in {*here, pid} - {0, os.getpid()}:
        try:
            os.kill(one, signal.SIGKILL)
        except ProcessLookupError:
            pass
    shutil.rmtree(directory, ignore_errors=True)
"""


class _Guard:
    """A process that outlives us just long enough to clean up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        self._owner = os.getpid()
        atexit.register(self._end)

    def watch(self, directory: Path, pid: int = 0) -> None:
        """Remember the directory to be removed, and the process in it, if one runs."""
        self._tell(f"{pid} {directory}\n")

    def forget(self, directory: Path) -> None:
        """Leave that directory alone from now on."""
        self._tell(f"-1 {directory}\n")

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        if pipe is not None and not pipe.closed:
            with self._lock:
                pipe.write(line)
                pipe.flush()

    def _end(self) -> None:
        if self._owner == os.getpid() and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(READY_SECONDS)


_guard = functools.cache(_Guard)


@contextlib.contextmanager
def directory_of_servers() -> Iterator[Path]:
    """Lend a short temporary directory; servers that something starts in it end with it."""
    directory = Path(tempfile.mkdtemp(prefix="fencelock-test-"))
    _guard().watch(directory)
    try:
        yield directory
    finally:
        for pid in processes_of(directory):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(directory, ignore_errors=True)
        _guard().forget(directory)


def processes_of(directory: Path) -> set[int]:
    """Return the servers whose command line or title names that directory (Linux)."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            title = (entry / "cmdline").read_bytes()
            if os.fsencode(directory) in title and b"-server" in title.split(b"\0")[0]:
                found.add(int(entry.name))
    return found


def _calls(words: list[str]) -> bool:
    """Return True if a logged command calls a script."""
    return words[0].lower() in {"eval", "evalsha"}


def _script(command: str, text: str) -> str:
    """Return the name of a script that was called; of a source the log has the beginning."""
    if command.lower() == "evalsha":
        found = BY_DIGEST.get(text.encode())
    else:  # "BEGINNING... (NUMBER more bytes)"
        begins, _, more = text.partition("... (")
        size = len(begins) + int(more.partition(" ")[0] or 0)
        found = next((each for each in BY_DIGEST.values() if len(each.source) == size), None)
    return found.name if found else "another"
