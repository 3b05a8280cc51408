"""Two builds of one layout of keys, side by side: they exclude each other, and hand over."""

import subprocess
import sys
import tarfile
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# An earlier build with today's layout of keys.
EARLIER = "68349c8"
TURNS = 40

# Takes turns, and notes for each: the build, the fence, and when it began and ended.
WORKER = """
import asyncio, sys, time
import fencelock
url, log, build, turns = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

def note(began, lease):
    with open(log, "a") as file:
        file.write(f"{build} {lease.fence} {began} {time.monotonic_ns()}\\n")

def go():
    print("ready", flush=True)
    sys.stdin.readline()

def threads():
    with fencelock.Client(url, cohort=None) as client:
        with client.lock(build):  # it is connected now
            go()
        for _ in range(turns):
            with client.lock("a", timeout=30) as lease:
                began = time.monotonic_ns()
                time.sleep(0.002)
                note(began, lease)

async def tasks():
    async with fencelock.AsyncClient(url, cohort=None) as client:
        async with client.lock(build):
            go()
        for _ in range(turns):
            async with client.lock("a", timeout=30) as lease:
                began = time.monotonic_ns()
                await asyncio.sleep(0.002)
                note(began, lease)

threads() if sys.argv[5] == "threads" else asyncio.run(tasks())
"""


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """Unpack the earlier build from the history of this checkout."""
    asked = ("git", "-C", str(ROOT), "archive", EARLIER, "src")
    packed = subprocess.run(asked, check=False, capture_output=True)
    if packed.returncode:
        pytest.skip(f"{EARLIER} is not in the history of this checkout")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def worker(source, server, log, build, face):
    command = (sys.executable, "-c", WORKER, server.url, str(log), build, str(TURNS), face)
    made = subprocess.Popen(
        command,
        env={"PYTHONPATH": str(source), "PATH": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert made.stdout.readline() == "ready\n"
    return made


@pytest.mark.parametrize(
    "faces", [("threads", "threads"), ("asyncio", "threads"), ("asyncio",) * 2]
)
def test_two_builds_of_one_layout_take_turns(server, earlier, tmp_path, faces):
    log = tmp_path / "turns"
    sources = {"earlier": earlier, "today": ROOT / "src"}
    both = [
        worker(source, server, log, build, face)
        for (build, source), face in zip(sources.items(), faces, strict=True)
    ]
    for each in both:
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in both:
        each.communicate(timeout=60)
        assert each.returncode == 0
    turns = [line.split() for line in log.read_text().splitlines()]
    assert len(turns) == 2 * TURNS
    for (_, fence, _, ended), (_, later_fence, later, _) in pairwise(turns):
        assert int(ended) <= int(later), "two builds held the lock at once"
        assert int(fence) < int(later_fence), "a fence did not grow from build to build"
    names = [turn[0] for turn in turns]
    both_want = names[
        max(map(names.index, sources)) : 2 * TURNS - max(map(names[::-1].index, sources))
    ]
    alone = sum(one == other for one, other in pairwise(both_want))
    assert alone * 10 <= len(both_want) > TURNS, f"a release did not hand over: {names}"
