"""What is true of threads and connections; and programs that run beside a test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from fencelock._core.keys import LockKeys
from fencelock._io.cleanup_queue import CLEANUP_SECONDS
from tests.local_lines import waiting_locally
from tests.servers import Server
from tests.waiting import SOON, until


def thread(work: Callable[..., Any], *args: Any) -> threading.Thread:
    """Start a thread."""
    started = threading.Thread(target=work, args=args, daemon=True)
    started.start()
    return started


def ended(one: threading.Thread) -> None:
    """Wait for a thread's end."""
    until(lambda: not one.is_alive(), f"the end of {one.name}", SOON)


def waiting(server: Server, prefix: str, name: str = "a") -> int:
    """Return how many stand in line."""
    keys = LockKeys(prefix, name)
    return server.command("ZCARD", keys.grant[2]) + waiting_locally(keys.lock)


def connections(server: Server) -> list[str]:
    """Return fencelock's connections to the server."""
    lines = server.command("CLIENT", "LIST").splitlines()
    return [line for line in lines if " name=fencelock " in line]


def lease_threads() -> list[str]:
    """Return the names of the library's threads in this process.

    A Ctrl-C inside ``Thread.start`` may leave a thread in the tables of ``threading`` for ever, or
    blocked by an event that stays locked. It runs none of the library's code, and is not alive.
    """
    ours = (each for each in threading.enumerate() if each.name.startswith("fencelock"))
    return [each.name for each in ours if each.is_alive()]


def until_others_ended(left: int = 0) -> None:
    """Wait for the threads of other tests: a clean-up asks a server that is gone for so long."""
    until(lambda: len(lease_threads()) <= left, "threads of other tests", CLEANUP_SECONDS + SOON)


@contextlib.contextmanager
def program(text: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program whose streams are the test's; it does not outlive the block.

    Its end is waited for without a limit: pytest's own ends a hang.
    """
    # From 3.12 on Python warns of each fork beside threads, which is what some programs are about.
    quiet = ("-W", "ignore:This process:DeprecationWarning")
    command = [sys.executable, "-X", "faulthandler", *quiet, "-c", text, *map(str, args)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as running:
        try:
            yield running
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
