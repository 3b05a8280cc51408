"""What these tests stand on: a cold directory, racers, and a server made of a thread."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fencelock._io.wire import ReplyError
from fencelock.embedded import ensure, liveness_lock, wire
from fencelock.embedded.runtime_dir import RuntimeDir, find
from tests.servers import ServerBinary, processes_of
from tests.waiting import SOON, until

_CLONE_NEWNS, _MS_REC_PRIVATE = 0x20000, 16384 | 1 << 18  # <sched.h> and <sys/mount.h> of Linux


class World:
    """A directory for an embedded server, and what is true of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.here = directory / "state"

    @property
    def place(self) -> RuntimeDir:
        return find(create=False)

    def use(self, binary: ServerBinary) -> None:
        """Let PATH hold that program and nothing else."""
        folder = self.directory / f"bin-{binary.name}"
        folder.mkdir(exist_ok=True)
        name = "valkey-server" if binary.is_valkey else "redis-server"
        with contextlib.suppress(FileExistsError):
            (folder / name).symlink_to(binary.path)
        os.environ["PATH"] = str(folder)

    def program(self, name: str, text: str) -> None:
        """Let PATH hold a shell script of that name and nothing else."""
        folder = self.directory / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
        os.environ["PATH"] = str(folder)

    def ask(self, *words: str, seconds: float = SOON) -> bytes:
        encoded = [word.encode() for word in words]
        reply = wire.ask(self.place.socket, *encoded, deadline=time.monotonic() + seconds).answer
        if reply is None or isinstance(reply, bytes):
            return reply or b""
        return f"-{reply}".encode() if isinstance(reply, ReplyError) else b"%d" % reply

    @property
    def servers(self) -> set[int]:
        return processes_of(self.here)

    @property
    def only(self) -> int:
        (pid,) = self.servers
        return pid

    @property
    def starts(self) -> int:
        """How many servers ever came as far as their first line."""
        return Path(self.place.log).read_text().count(" is starting ")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.only, number)

    def kill(self) -> None:
        """End the server without warning, and wait for the kernel to say so."""
        self.signal(signal.SIGKILL)
        until(lambda: not liveness_lock.held(self.place.alive))


def count_one() -> dict[str, Any]:
    """Attach, count to one more, and tell who answered."""
    begin = time.monotonic()
    url = ensure()
    took = time.monotonic() - begin
    place = find(create=False)
    deadline = time.monotonic() + SOON
    reply = wire.ask(place.socket, b"INCR", b"turns", deadline=deadline)
    return {"url": url, "pid": reply.pid, "turn": str(reply.answer), "took": took}


def race(number: int, work: Callable[[], Any] = count_one) -> list[Any]:
    """Run the work in that many processes, let go at one instant; return what each brought."""
    with crowd(number, work) as racers:
        return racers.results()


class Crowd:
    """Forked processes and the pipes that they report on."""

    def __init__(self, pids: Sequence[int], reports: Sequence[int]) -> None:
        self.pids = pids
        self._reports = reports

    def results(self) -> list[Any]:
        """Wait for all; a process that died without a word brings None."""
        texts = [_drained(report) for report in self._reports]
        return [json.loads(text) if text else None for text in texts]


@contextlib.contextmanager
def crowd(number: int, work: Callable[[], Any]) -> Iterator[Crowd]:
    """Fork that many processes and let them go together; none outlives the block."""
    gate, opener = os.pipe()
    pids, reports = [], []
    for _ in range(number):
        report, pen = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            _run(gate, pen, work)
        os.close(pen)
        pids.append(pid)
        reports.append(report)
    os.close(opener)
    os.close(gate)
    try:
        yield Crowd(pids, reports)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for report in reports:
            os.close(report)


def _run(gate: int, pen: int, work: Callable[[], Any]) -> None:
    try:
        os.read(gate, 1)  # the end of the file is the starting shot
        result = work()
    except BaseException:  # noqa: BLE001 - a forked copy of the test run must go no further
        result = {"error": traceback.format_exc()}
    os.write(pen, json.dumps(result).encode())
    os._exit(0)


def _drained(report: int) -> bytes:
    parts = iter(lambda: os.read(report, 65536), b"")
    return b"".join(parts)


@contextlib.contextmanager
def impostor(replies: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Live as a server does, lock and socket, and answer each question with the next reply."""
    place = find(create=True)
    claim = liveness_lock.take(place.alive)
    assert claim is not None
    asked: list[bytes] = []
    with claim, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.bind(place.socket)
        line.listen()
        answering = threading.Thread(target=_answer, args=(line, replies, asked), daemon=True)
        answering.start()
        yield asked
        line.shutdown(socket.SHUT_RDWR)
        answering.join(SOON)


def _answer(line: socket.socket, replies: Sequence[bytes], asked: list[bytes]) -> None:
    for reply in replies:
        try:
            caller, _ = line.accept()
        except OSError:
            return
        with caller:
            asked.append(caller.recv(65536))
            caller.sendall(reply)


def mount_for_us(*mounts: tuple[bytes, bytes, bytes | None, int]) -> None:
    """Mount for this process only, as root: source, target, type and flags of each."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert not libc.unshare(_CLONE_NEWNS), os.strerror(ctypes.get_errno())
    for source, target, kind, flags in ((b"none", b"/", None, _MS_REC_PRIVATE), *mounts):
        data = b"size=64k" if kind == b"tmpfs" else None
        assert not libc.mount(source, target, kind, flags, data), os.strerror(ctypes.get_errno())
