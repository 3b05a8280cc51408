"""The servers that tests use do what tests rely on, and leave nothing behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Refused, Server, processes_of
from tests.waiting import until

INTERRUPTED = """
import os, signal
from fencelock.embedded import ensure
from tests.servers import Server, directory_of_servers

with Server() as server, directory_of_servers() as directory:
    os.environ.update(FENCELOCK_EMBEDDED="1", FENCELOCK_DIR=f"{directory}/state")
    ensure()
    print(server.directory, directory, server.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_server_answers_on_both_its_addresses(binary):
    with Server(binary) as server, Server(binary, unix=False) as other:
        assert server.url.startswith("unix://")
        assert other.url == other.tcp_url
        assert server.command("SET", "a", b"\xff") == "OK"
        assert server.command("EVAL", "return {1, 'x', false, {err='E no'}}", 0)[:3] == [
            1,
            "x",
            None,
        ]
        assert server.commandstats()["set"] == 1
        assert other.command("DEBUG", "SLEEP", "0") == "OK"
        with pytest.raises(Refused, match="unknown command"):
            other.command("NONSENSE")
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            line.sendall(b"PING\r\n")
            assert line.recv(100) == b"+PONG\r\n"


def test_a_server_goes_through_all_that_can_happen_to_one(binary):
    with Server(binary, persistent=True) as server:
        server.command("SET", "kept", "yes")
        address = server.url, server.port
        for end in (server.kill, server.stop, server.restart):
            end()
            server.restart()
            assert server.command("GET", "kept") == "yes"
        server.pause()
        assert Path(f"/proc/{server.pid}/stat").read_text().rsplit(")")[1].split()[0] == "T"
        server.resume()
        server.flushall()
        assert server.command("DBSIZE") == 0
        assert (server.url, server.port) == address
    assert not server.directory.exists()


def test_a_killed_run_leaves_no_server_and_no_directory():
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False
    )
    assert run.returncode == -signal.SIGKILL
    ours, embedded, pid = run.stdout.split()
    until(lambda: not Path(ours).exists() and not Path(embedded).exists())
    until(lambda: not processes_of(Path(embedded)))
    until(lambda: not (title := Path(f"/proc/{pid}/cmdline")).exists() or not title.read_bytes())
