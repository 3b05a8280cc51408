"""What the two libraries do to a real server of each kind."""

import contextlib
import math

import pytest

from tests.faults.world import wait_until
from tests.servers import Server, binaries
from verification.runs import shims

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(shims.why_not()), reason=shims.why_not()),
    pytest.mark.parametrize("binary", binaries(), ids=str),
]


@contextlib.contextmanager
def clocked(binary, folder):
    with contextlib.closing(shims.Clock(folder)) as clock:
        preload = {"LD_PRELOAD": str(shims.library("clock"))}
        with Server(binary, environment=preload | clock.environment) as server:
            yield server, clock


def test_a_clock_that_jumps_ends_keys_and_a_clock_set_back_keeps_them(binary, tmp_path):
    with clocked(binary, tmp_path) as (server, clock):
        server.command("SET", "key", "value", "PX", 100_000)
        clock.jump(-50)
        wait_until(lambda: server.command("PTTL", "key") > 149_000)
        clock.jump(200)
        wait_until(lambda: server.command("GET", "key") is None)


def test_a_clock_that_is_fast_ends_keys_early_and_one_that_stands_still_does_not(binary, tmp_path):
    with clocked(binary, tmp_path) as (server, clock):
        server.command("SET", "key", "value", "PX", 100_000)
        clock.go(1000.0)
        wait_until(lambda: server.command("GET", "key") is None)
        clock.go(0.0)
        server.command("SET", "key", "value", "PX", 100_000)
        server.command("DEBUG", "SLEEP", "1")
        # Between two looks at its wall clock a Valkey 9 counts by its monotonic one: wait for a
        # look. A clock that went on would never again show as much.
        wait_until(lambda: server.command("PTTL", "key") > 99_100)


@pytest.mark.parametrize(("appendfsync", "kept"), [("always", math.inf), ("no", 0)])
def test_power_that_fails_takes_what_was_not_synced(binary, appendfsync, kept, tmp_path):
    disk = shims.Disk(tmp_path)
    preload = {"LD_PRELOAD": str(shims.library("disk"))} | disk.environment
    args = ["--appendfsync", appendfsync]
    with Server(binary, persistent=True, args=args, environment=preload) as server:
        for number in range(20):
            server.command("SET", f"key-{number}", "value")
        server.kill()
        gone = disk.lose(server.directory)
        server.start()
        assert (gone > 0) == (kept == 0)
        assert server.command("DBSIZE") == min(kept, 20)
