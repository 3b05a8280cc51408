"""Looking at the server and ending it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import hiredis
import pytest

import fencelock.embedded
from fencelock.embedded import control, ensure, liveness_lock, status, stop
from fencelock.embedded.runtime_dir import find
from fencelock.errors import ServerUnreachable
from tests.waiting import machine_seconds, until

LIGHT = """
import sys, types
package = types.ModuleType("fencelock")
package.__path__ = [sys.argv[1]]
sys.path.append(sys.argv[2])  # of hiredis, which each connection needs
sys.modules["fencelock"] = package
import fencelock.embedded
heavy = {"subprocess", "redis", "valkey", "asyncio", "logging", "dataclasses", "pathlib", "shutil"}
print(sorted(heavy & set(sys.modules)))
"""


def test_a_server_that_was_never_started_is_not_running(world, binary):
    world.use(binary)
    seen = status()
    assert (seen.running, seen.answering, seen.pid) == (False, False, None)
    assert seen.version == ".".join(map(str, binary.release))
    assert seen.binary.startswith(str(world.directory))
    assert not world.here.exists()


def test_a_running_server_tells_of_itself(world, binary):
    world.use(binary)
    url = ensure()
    seen = status()
    assert (seen.running, seen.answering, seen.pid) == (True, True, world.only)
    assert (seen.url, seen.directory) == (url, str(world.here))
    assert seen.version == ".".join(map(str, binary.release))
    assert seen.binary


def test_a_stopped_server_runs_and_does_not_answer(world):
    ensure()
    world.signal(signal.SIGSTOP)
    seen = status()
    assert (seen.running, seen.answering, seen.pid) == (True, False, world.only)


def test_without_any_program_the_status_is_still_told(world, monkeypatch):
    monkeypatch.setattr("fencelock.embedded.binaries.find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", "")
    assert (status().version, status().binary) == ("", "")


def test_stop_ends_the_server_and_keeps_its_data(world, binary):
    world.use(binary)
    ensure()
    pid = world.only
    world.ask("SET", "kept", "yes")
    assert stop()
    assert not liveness_lock.held(world.place.alive)
    assert world.servers == set()
    assert not stop()
    ensure()
    assert world.ask("GET", "kept") == b"yes"
    assert world.only != pid


def test_stop_without_a_server_leaves_no_trace(world):
    assert not stop()
    assert not world.here.exists()


def test_a_paused_server_is_stopped_by_signal_and_keeps_its_data(world, binary, monkeypatch):
    monkeypatch.setattr(control, "_TIMEOUT", 0.1)
    world.use(binary)
    ensure()
    world.ask("SET", "kept", "yes")
    world.signal(signal.SIGSTOP)
    assert stop(timeout=15)
    assert world.servers == set()
    ensure()
    assert world.ask("GET", "kept") == b"yes"


def test_a_server_that_refuses_to_shut_down_is_stopped_by_signal(world):
    ensure()
    world.ask("CONFIG", "SET", "requirepass", "secret")
    assert stop(timeout=15)
    assert world.servers == set()


def test_stop_waits_for_a_server_that_is_being_started(world):
    with liveness_lock.take(find(create=True).alive):
        begin = time.monotonic()
        with pytest.raises(ServerUnreachable, match="still running"):
            stop(timeout=0.1)
        assert 0.1 <= time.monotonic() - begin < 0.1 + machine_seconds()


def test_stop_does_not_end_the_next_server(world, monkeypatch):
    ensure()
    first = world.only
    tell = control._tell_to_end

    def tell_and_start_the_next(place, deadline):
        pid = tell(place, deadline)
        until(lambda: not liveness_lock.held(place.alive))
        ensure()
        return pid

    monkeypatch.setattr(control, "_tell_to_end", tell_and_start_the_next)
    assert stop(timeout=15)
    assert world.only != first


def test_stop_and_start_at_once_end_well(world):
    ensure()
    ending = threading.Thread(target=stop)
    ending.start()
    ensure()
    ending.join()
    ensure()
    assert len(world.servers) == 1


def test_the_timeout_of_stop_is_checked(world):
    with pytest.raises(ValueError, match="timeout"):
        stop(timeout=-1)


def test_names_that_do_not_exist_are_told_so():
    name = "begin"
    with pytest.raises(AttributeError, match="no attribute 'begin'"):
        getattr(fencelock.embedded, name)
    assert all(getattr(fencelock.embedded, name) for name in fencelock.embedded.__all__)


def test_attaching_needs_no_heavy_import():
    folder = fencelock.embedded.__path__[0].removesuffix("/embedded")
    packages = str(Path(hiredis.__file__).parent.parent)
    command = [sys.executable, "-S", "-c", LIGHT, folder, packages]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
