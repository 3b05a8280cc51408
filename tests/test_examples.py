"""The examples run, and say themselves that what they show came true."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Server
from tests.topologies import TOPOLOGIES, shared

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
RUN_SECONDS = 50

# Each with arguments that keep it short, and what its last line says.
SHOWN = {
    "asyncio_worker.py": (["--accounts", "6"], r"6 accounts settled by 4 workers, \d+ times"),
    "cluster.py": (["--orders", "6"], r"6 orders, each served 4 times, fences grew"),
    "decorated.py": (["--calls", "6"], r"6 calls, 2 orders, none overlapped"),
    "elect_leader.py": (["--processes", "3"], r"3 candidates, 3 leaders one after the other"),
    "fenced_orders.py": (["--ttl", "0.3"], r"the late write was refused, the order is 'sent'"),
    "in_turn.py": (["--threads", "2", "--turns", "5"], r"twice 20 turns, fences grew"),
    "move_money.py": (["--moves", "6"], r"6 moves, 3 accounts, nothing lost"),
    "noon_draw.py": (["--processes", "3"], r"3 processes, 1 draw, 10 winners"),
    "quorum.py": (["--turns", "2"], r"6 turns over 5 servers, none overlapped, fences grew"),
    "relay.py": (["--workers", "2", "--rounds", "2"], r"2 workers made 4 things; the collector"),
    "run_once.py": (["--processes", "3"], r"3 processes, 1 draw, all know the 10 winners"),
    "sentinel.py": (["--steps", "3"], r"3 steps under 1 lease"),
    "shared_cache.py": (["--rounds", "3"], r"24 reads beside 3 writes, [12] loaded at a time"),
    "take_turns.py": (["--turns", "2"], r"4 turns, none overlapped, fences grew, \d changes"),
    "threads.py": (["--rounds", "3"], r"4 threads counted to 24"),
}
SEVERAL_SERVERS = ("cluster.py", "quorum.py", "sentinel.py")


@pytest.fixture(scope="module")
def server():
    with Server() as one:
        yield one


def url_for(name, server):
    """Return where an example runs: on one server, or on the topology that it is named after."""
    kinds = {f"{each.name}.py": each for each in TOPOLOGIES}
    return shared(kinds[name]).url if name in SEVERAL_SERVERS else server.url


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_shows_what_it_says(name, server, tmp_path):
    args, last_line = SHOWN[name]

    ran = subprocess.run(
        [sys.executable, EXAMPLES / name, *args],
        env=os.environ | {"FENCELOCK_URL": url_for(name, server)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.match(last_line, ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", SEVERAL_SERVERS)
def test_an_example_of_several_servers_asks_for_them(name, monkeypatch):
    monkeypatch.delenv("FENCELOCK_URL", raising=False)
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, "error: give " in ran.stderr) == (2, True)


def test_every_example_is_run():
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(SHOWN)
