"""The examples run, and say themselves that what they show came true."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Server

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
RUN_SECONDS = 50

# Each with arguments that keep it short, and what its last line says.
SHOWN = {
    "asyncio_worker.py": (["--accounts", "6"], r"6 accounts settled by 4 workers, \d+ times"),
    "decorated.py": (["--calls", "6"], r"6 calls, 2 orders, none overlapped"),
    "elect_leader.py": (["--processes", "3"], r"3 candidates, 3 leaders one after the other"),
    "move_money.py": (["--moves", "6"], r"6 moves, 3 accounts, nothing lost"),
    "noon_draw.py": (["--processes", "3"], r"3 processes, 1 draw, 10 winners"),
    "relay.py": (["--workers", "2", "--rounds", "2"], r"2 workers made 4 things; the collector"),
    "run_once.py": (["--processes", "3"], r"3 processes, 1 draw, all know the 10 winners"),
    "shared_cache.py": (["--rounds", "3"], r"24 reads beside 3 writes, [12] loaded at a time"),
    "take_turns.py": (["--turns", "2"], r"4 turns, none overlapped, fences grew, \d changes"),
    "threads.py": (["--rounds", "3"], r"4 threads counted to 24"),
}


@pytest.fixture(scope="module")
def server():
    with Server() as one:
        yield one


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_shows_what_it_says(name, server, tmp_path):
    args, last_line = SHOWN[name]

    ran = subprocess.run(
        [sys.executable, EXAMPLES / name, *args],
        env=os.environ | {"FENCELOCK_URL": server.url},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.match(last_line, ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_tells_what_can_be_changed(name):
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name, "--help"], capture_output=True, text=True, check=True
    )

    assert all(option in ran.stdout for option in SHOWN[name][0] if option.startswith("--"))


def test_every_example_is_run():
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(SHOWN)
