"""Silence is not death: a server that does not answer is waited for and never doubled."""

from __future__ import annotations

import asyncio
import fcntl
import signal
import time
from pathlib import Path

import pytest

import fencelock
from fencelock.embedded import ensure, liveness_lock, start, stop, wire
from fencelock.embedded.runtime_dir import find
from fencelock.errors import ServerDenied, ServerUnreachable
from tests.embedded.world import crowd, impostor, race
from tests.waiting import machine_seconds, until


def refusal(timeout):
    """Return what ensure() says when it gives up, after checking that it did so in time."""
    begin = time.monotonic()
    with pytest.raises(ServerUnreachable) as caught:
        ensure(timeout=timeout)
    took = time.monotonic() - begin
    assert timeout <= took < timeout + machine_seconds()
    return str(caught.value)


def test_a_stopped_server_is_named_and_has_no_twin(world, binary):
    world.use(binary)
    ensure()
    pid = world.only
    world.ask("SET", "kept", "yes")
    world.signal(signal.SIGSTOP)

    assert f"is alive (pid {pid}) but not answering" in refusal(0.2)
    assert {"alive" in one["error"] for one in race(8, lambda: ensure(timeout=0.2))} == {True}
    assert world.servers == {pid}

    world.signal(signal.SIGCONT)
    ensure()
    assert world.servers == {pid}
    assert world.ask("GET", "kept") == b"yes"


def test_a_server_that_dies_while_we_wait_is_replaced_in_time(world, binary):
    world.use(binary)
    ensure()
    pid = world.only
    world.signal(signal.SIGSTOP)
    with crowd(8, lambda: ensure(timeout=15)) as waiting:
        until(lambda: connections(world) >= 8)
        world.signal(signal.SIGKILL)
        assert waiting.results() == [world.place.url] * 8
    assert world.only != pid
    assert world.starts == 2


def killed_once_found(world, monkeypatch):
    """Let the server that ``ensure`` finds first be dead before it is connected to."""
    urls = []

    def ensure_and_kill(*, timeout):
        urls.append(ensure(timeout=timeout))
        if len(urls) == 1:
            world.kill()
        return urls[-1]

    monkeypatch.setattr("fencelock.embedded.ensure", ensure_and_kill)
    return urls


def test_a_first_connection_that_is_refused_is_tried_again(world, monkeypatch):
    urls = killed_once_found(world, monkeypatch)
    with fencelock.Client() as client, client.lock("orders"):
        assert len(urls) > 1


def test_a_first_connection_that_is_refused_is_tried_again_in_asyncio(world, monkeypatch):
    urls = killed_once_found(world, monkeypatch)

    async def use():
        async with fencelock.AsyncClient() as client, client.lock("orders"):
            assert len(urls) > 1

    asyncio.run(use())


def connections(world):
    """Count who is connected to the socket, or waits to be accepted."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(world.place.socket) for line in lines) - 1


@pytest.mark.slow
def test_a_busy_server_is_waited_for_and_can_be_stopped(world, binary):
    world.use(binary)
    ensure()
    pid = world.only
    world.ask("CONFIG", "SET", "lua-time-limit", "50")
    with crowd(1, lambda: world.ask("EVAL", "while true do end", "0", seconds=9) and None):
        until(lambda: world.ask("PING", seconds=1).startswith(b"-BUSY"))
        assert "BUSY" in refusal(3.0)
        assert world.servers == {pid}
        assert stop(timeout=15)


def test_a_loading_server_is_waited_for(world):
    loading = b"-LOADING reading the log\r\n"
    with impostor([loading, loading, b"+PONG\r\n"]) as asked:
        ensure(timeout=15)
    assert len(asked) == 3
    assert world.servers == set()


def test_what_a_server_said_last_is_told_though_it_falls_silent(world):
    with impostor([b"-LOADING reading the log\r\n"]):
        assert "LOADING reading the log" in refusal(0.2)
    assert world.servers == set()


def test_a_server_that_hangs_up_is_asked_again(world):
    with impostor([b"", b"+PO", b"+PONG\r\n"]) as asked:
        ensure(timeout=15)
    assert len(asked) == 3
    assert world.servers == set()


def test_a_server_that_asks_for_a_password_is_refused(world):
    with impostor([b"-NOAUTH who are you\r\n"]), pytest.raises(ServerDenied, match="password"):
        ensure()
    assert world.servers == set()


def test_while_somebody_else_starts_nobody_starts(world):
    with liveness_lock.take(find(create=True).alive):
        assert "no server listens" in refusal(0.1)
        assert world.servers == set()


def test_a_start_that_was_given_up_is_taken_over_within_the_timeout(world):
    claim = liveness_lock.take(find(create=True).alive)
    with crowd(4, lambda: ensure(timeout=15)) as waiting, claim:
        pass
    with crowd(4, lambda: ensure(timeout=15)) as waiting:
        assert waiting.results() == [world.place.url] * 4
    assert world.starts == 1


def test_a_removed_lock_file_does_not_double_a_living_server(world):
    ensure()
    pid = world.only
    Path(world.place.alive).unlink()
    ensure()
    world.signal(signal.SIGSTOP)
    assert "not answering" in refusal(0.1)
    assert world.servers == {pid}


def test_the_socket_is_asked_once_more_under_the_claim(world, monkeypatch):
    ensure()
    Path(world.place.alive).unlink()
    ask, lies = wire.ask, [wire.Reply(listening=False)]
    monkeypatch.setattr(
        wire, "ask", lambda *words, **when: lies.pop() if lies else ask(*words, **when)
    )
    ensure()
    assert lies == []
    assert world.starts == 1


def test_a_lock_on_a_replaced_file_is_no_claim(world, monkeypatch):
    path = find(create=True).alive
    lock = fcntl.flock

    def replace_and_lock(fd, how):
        Path(path).unlink()
        Path(path).touch()
        return lock(fd, how)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", replace_and_lock)
        assert liveness_lock.take(path) is None
    with liveness_lock.take(path):
        assert liveness_lock.held(path)


def test_a_stale_socket_is_replaced(world, binary):
    world.use(binary)
    ensure()
    world.kill()
    assert Path(world.place.socket).is_socket()
    ensure()
    assert world.starts == 2


def test_a_file_in_the_place_of_the_socket_is_replaced(world):
    Path(find(create=True).socket).write_text("not a socket")
    ensure()
    assert world.starts == 1


def test_another_users_server_is_refused(world):
    place = find(create=True)
    stranger = wire.Reply(listening=True, answer=b"PONG", pid=1, uid=place_uid(place) + 1)
    with pytest.raises(ServerDenied, match="by a process of user"):
        start._answers(stranger, place)


def place_uid(place):
    return Path(place.directory).stat().st_uid


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("-inf")])
def test_a_timeout_that_is_none_is_refused_before_anything_happens(world, timeout):
    with pytest.raises(ValueError, match="timeout"):
        ensure(timeout=timeout)
    assert not world.here.exists()


def test_no_time_at_all_is_enough_for_a_healthy_server(world):
    ensure()
    assert ensure(timeout=0) == world.place.url
    assert ensure(timeout=float("inf")) == world.place.url
