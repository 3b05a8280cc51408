"""However many processes want a server at once, there is one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fencelock.embedded import binaries, ensure, launch, liveness_lock, start, wire
from fencelock.embedded.runtime_dir import find
from tests.embedded.world import crowd, race
from tests.waiting import SOON, until

RACERS = 16


def agree(results):
    """Check that nobody failed and that one server answered them all; return its pid."""
    assert [one for one in results if one is None or "error" in one] == []
    assert len({one["url"] for one in results}) == 1
    (pid,) = {one["pid"] for one in results}
    return pid


@pytest.mark.parametrize("trial", range(4))
def test_a_cold_start_by_many_gives_one_server(world, binary, trial):
    world.use(binary)
    pid = agree(race(RACERS))
    assert world.servers == {pid}
    assert world.starts == 1
    assert world.ask("GET", "turns") == b"%d" % RACERS


def test_a_killed_server_is_replaced_once_and_forgets_nothing(world, binary):
    world.use(binary)
    pids = set()
    for generation in range(1, 5):
        pids.add(agree(race(RACERS)))
        assert world.starts == generation
        assert world.ask("GET", "turns") == b"%d" % (RACERS * generation)
        world.kill()
    assert len(pids) == 4


def test_kills_in_the_midst_of_work_lose_no_answered_write(world, binary):
    world.use(binary)
    ensure()
    kills = 0
    over = world.directory / "over"
    with crowd(RACERS, lambda: count_until(over)) as racers:
        end = time.monotonic() + 0.8
        while time.monotonic() < end:
            before = world.ask("GET", "turns", seconds=1)
            os.kill(until(lambda: world.servers).pop(), signal.SIGKILL)
            kills += 1
            until(lambda seen=before: world.ask("GET", "turns", seconds=1) not in {b"", seen})
        over.touch()
        results = racers.results()
    assert [one for one in results if one is None or "error" in one] == []
    answered = sum(one["answered"] for one in results)
    asked = sum(one["asked"] for one in results)
    ensure()
    assert answered <= int(world.ask("GET", "turns")) <= asked
    assert world.starts == kills + 1


def count_until(over):
    """Count until that file is there: only who counts starts the server again."""
    asked = answered = 0
    while not over.exists():
        ensure()
        asked += 1
        deadline = time.monotonic() + SOON
        reply = wire.ask(find(create=False).socket, b"INCR", b"turns", deadline=deadline)
        answered += isinstance(reply.answer, int)
    return {"asked": asked, "answered": answered}


def die(*_args, **_options):
    os.kill(os.getpid(), signal.SIGKILL)


def die_after(work):
    def both(*args, **options):
        work(*args, **options)
        die()

    return both


def die_beside(program):
    """Start the program, do not wait for it, and die; merely asking for a version is let pass."""

    def both(arguments, *, check, timeout, **options):
        if "--version" in arguments:
            return run(arguments, check=check, timeout=timeout, **options)
        program(arguments, **options)
        return die()

    return both


run = subprocess.run

MOMENTS = {
    "with the claim, before the search": (binaries, "choose", die),
    "before the spawn": (launch, "spawn", die),
    "beside the spawn": (launch.subprocess, "run", die_beside(subprocess.Popen)),
    "after the spawn, with the claim": (launch, "spawn", die_after(launch.spawn)),
    "after the claim": (start, "_start", die_after(start._start)),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_starter_that_dies_leaves_no_twin_and_no_obstacle(world, monkeypatch, moment):
    with monkeypatch.context() as patch:
        patch.setattr(*MOMENTS[moment])
        assert race(1) == [None]
    pid = agree(race(RACERS))
    assert world.servers == {pid}
    assert world.starts == 1


@pytest.mark.slow
def test_starters_killed_at_any_instant_leave_no_twin(world, binary):
    world.use(binary)
    for step in range(25):
        with crowd(3, ensure) as racers:
            assert len(racers.pids) == 3
            end = time.monotonic() + step * 0.002
            until(lambda instant=end: time.monotonic() >= instant)
        pid = agree(race(3))
        assert world.servers == {pid}
        assert world.starts == step + 1
        world.kill()


@pytest.mark.slow
def test_a_child_of_a_dead_server_delays_the_next_and_no_more(world, binary):
    if binary.release < (7,):
        pytest.skip("this server cannot be made to rewrite its log slowly")
    world.use(binary)
    ensure()
    for number in range(3):
        world.ask("SET", f"key-{number}", "kept")
    pid = world.only
    world.ask("CONFIG", "SET", "rdb-key-save-delay", "1000000")
    world.ask("BGREWRITEAOF")
    child = until(lambda: child_of(pid))
    os.kill(child, signal.SIGSTOP)  # or it might end by itself when it misses its parent
    os.kill(pid, signal.SIGKILL)
    until(lambda: pid not in world.servers)
    with crowd(1, lambda: ensure(timeout=15)) as waiting:
        assert liveness_lock.held(world.place.alive)
        os.kill(child, signal.SIGCONT)
        assert waiting.results() == [world.place.url]
    assert world.starts == 2
    assert world.ask("GET", "key-2") == b"kept"


def child_of(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None


def test_a_fork_in_the_wrong_moment_does_not_keep_the_lock(world):
    place = find(create=True)
    claim = liveness_lock.take(place.alive)
    with crowd(1, signal.pause):
        with claim:
            assert liveness_lock.held(place.alive)
        until(lambda: not liveness_lock.held(place.alive))
