"""Two builds side by side: they exclude each other, and hand over.

Where the layout of the keys is another one, they exclude each other all the same, or one refuses.
"""

import json
import re
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pytest

import fencelock
from fencelock.scripts.constants import LAYOUT_VERSION
from tests.servers import Server
from tests.waiting import until

ROOT = Path(__file__).parents[2]
# Earlier builds: one with today's layout of the keys, which reads no message that names a node of a
# Cluster; and one with layout 1.
SAME, FIRST = "08c243f", "d12c293"
TURNS = 40
LAYOUT = ROOT / "tests" / "layout.txt"


class Build(NamedTuple):
    """A Python, and where it finds the package, unless that is installed there."""

    python: str
    path: Path | None


TODAY = Build(sys.executable, ROOT / "src")

# Takes turns, and notes for each: the build, the fence, and when it began and ended.
WORKER = """
import asyncio, inspect, sys, time
import fencelock
url, log, build, turns = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
# The first build has no cohorts.
options = {"cohort": None} if "cohort" in inspect.signature(fencelock.Client).parameters else {}

def note(began, lease):
    with open(log, "a") as file:
        file.write(f"{build} {lease.fence} {began} {time.monotonic_ns()}\\n")

def go():
    print("ready", flush=True)
    sys.stdin.readline()

def threads():
    with fencelock.Client(url, **options) as client:
        with client.lock(build):  # it is connected now
            go()
        for _ in range(turns):
            with client.lock("a", timeout=30) as lease:
                began = time.monotonic_ns()
                time.sleep(0.002)
                note(began, lease)

async def tasks():
    async with fencelock.AsyncClient(url, **options) as client:
        async with client.lock(build):
            go()
        for _ in range(turns):
            async with client.lock("a", timeout=30) as lease:
                began = time.monotonic_ns()
                await asyncio.sleep(0.002)
                note(began, lease)

threads() if sys.argv[5] == "threads" else asyncio.run(tasks())
"""


# Runs one line after the other, and answers what each gives or raises.
AGENT = """
import json, sys
import fencelock
with fencelock.Client(sys.argv[1]) as client:
    names = {"client": client}
    for line in sys.stdin:
        try:
            answer = eval(json.loads(line), names)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module", params=[SAME, pytest.param(FIRST, marks=pytest.mark.slow)])
def earlier(request, tmp_path_factory):
    """Unpack or install an earlier build from the history of this checkout."""
    return build(request.param, tmp_path_factory.mktemp("earlier"))


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Install the build with the first layout of the keys."""
    return build(FIRST, tmp_path_factory.mktemp("first"))


def build(commit, folder):
    asked = ("git", "-C", str(ROOT), "archive", "--format=zip", commit)
    packed = subprocess.run(asked, check=False, capture_output=True)
    if packed.returncode:
        pytest.skip(f"{commit} is not in the history of this checkout")
    with ZipFile(BytesIO(packed.stdout)) as archive:
        archive.extractall(folder / "source")
    if commit == SAME:
        return Build(sys.executable, folder / "source" / "src")
    python = folder / "venv" / "bin" / "python"
    subprocess.run((sys.executable, "-m", "venv", folder / "venv"), check=True)
    install = (python, "-m", "pip", "install", "--quiet", "--no-input", folder / "source")
    if subprocess.run(install, check=False).returncode:
        pytest.skip("pip could not install an earlier build: is there no index?")
    return Build(str(python), None)


def started(build, program, *args):
    found = {"PYTHONPATH": str(build.path)} if build.path else {}
    return subprocess.Popen(
        (build.python, "-c", program, *args),
        env={**found, "PATH": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def worker(build, server, log, name, face):
    made = started(build, WORKER, server.url, str(log), name, str(TURNS), face)
    assert made.stdout.readline() == "ready\n"
    return made


@contextmanager
def agent(build, server):
    """Lend a client of a build in a process of its own."""
    with started(build, AGENT, server.url) as process:

        def ask(line):
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        try:
            yield ask
        finally:
            process.stdin.close()  # which ends it


@pytest.mark.parametrize(
    "faces", [("threads", "threads"), ("asyncio", "threads"), ("asyncio",) * 2]
)
def test_two_builds_take_turns_with_a_lock(server, earlier, tmp_path, faces):
    assert_turns(server, earlier, tmp_path / "turns", faces)


def assert_turns(server, earlier, log, faces):
    """Have both take turns; return how long each handoff took, in seconds."""
    builds = {"earlier": earlier, "today": TODAY}
    both = [
        worker(build, server, log, name, face)
        for (name, build), face in zip(builds.items(), faces, strict=True)
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
        max(map(names.index, builds)) : 2 * TURNS - max(map(names[::-1].index, builds))
    ]
    alone = sum(one == other for one, other in pairwise(both_want))
    assert alone * 10 <= len(both_want) > TURNS, f"a release did not hand over: {names}"
    return [(int(later) - int(ended)) / 1e9 for (*_, ended), (_, _, later, _) in pairwise(turns)]


@pytest.mark.slow
def test_a_build_with_the_first_layout_refuses_what_it_cannot_read(server, first):
    """Today's reads the record of a semaphore that the earlier one wrote, which refuses today's."""
    with agent(first, server) as earlier, agent(TODAY, server) as today:
        for ask in (earlier, today):
            assert ask("globals().update(s=client.semaphore('s', 2), w=client.rwlock('w'))") is None
        assert earlier("s.acquire()") is True
        assert today("s.acquire(timeout=5)") is True
        assert earlier("client.semaphore('s', 2).acquire(timeout=5)").startswith("ServerUnsuitable")
        assert today("s.acquire(timeout=0.1)") is False, "more were granted than the limit"
        assert earlier("s.release()") is None
        assert today("s.acquire(timeout=5)") is True
        assert today("s.release()") is today("s.release()") is None
        assert earlier("w.write.acquire() and None") is None
        assert today("w.read.acquire(timeout=0.1)") is False
        assert earlier("w.write.release()") == 0
        assert today("w.write.acquire() and None") is None
        assert earlier("w.read.acquire(timeout=0.1)").startswith("ServerUnsuitable")
        assert today("w.write.release()") == 0


@pytest.mark.slow
def test_builds_with_two_layouts_share_what_has_not_changed(server, first):
    with agent(first, server) as earlier, agent(TODAY, server) as today:
        for one, other in ((earlier, today), (today, earlier)):
            server.flushall()
            made = "e=client.event('e'), c=client.election('c'), m=client.multi(['m', 'n'])"
            for ask in (one, other):
                ask(f"globals().update({made}, o=client.once('o', within=60))")
            assert one("e.set()") is None
            assert other("e.wait(5)") is True
            assert one("c.campaign() and None") is None
            assert other("c.campaign(timeout=0.1)") is False
            assert one("c.leader().candidate") == other("c.leader().candidate")
            assert one("m.acquire()") is True
            assert other("m.acquire(timeout=0.1)") is False
            assert (one("m.release()"), other("m.acquire(timeout=5)")) == (None, True)
            assert "ran" in one("repr(o.run(lambda: 1))")
            assert "done" in other("repr(o.run(lambda: 1))")
            assert (one("c.resign()"), other("m.release()")) == (None, None)


# -- the layout, and its version -------------------------------------------------------------------


def layout_of(server):
    """Return the form of each key that a client writes, with its version."""
    with ExitStack() as stack:
        client, other = (stack.enter_context(fencelock.Client(server.url)) for _ in range(2))
        lock = client.lock("lock")
        assert lock.acquire()
        for held in (
            *(client.rlock("owned", owner="me"), client.rwlock("rw").write),
            *(each.semaphore("semaphore", 2) for each in (client, other)),
        ):
            stack.enter_context(held)
        client.event("event").set()
        client.latch("latch", 2).count_down()
        client.once("once", within=60).run(lambda: 1)

        def take():
            with other.lock("lock", timeout=30):
                pass

        waiters = [
            threading.Thread(target=each) for each in (take, other.barrier("barrier", 2).wait)
        ]
        for waiter in waiters:
            waiter.start()
        kinds = ("lock}~queue", "barrier}~watch")
        until(
            lambda: all(server.command("ZCARD", f"fencelock:{{fencelock:{each}") for each in kinds),
            "the waiters",
        )
        lines = [f"layout {LAYOUT_VERSION}", *sorted(map(server_form(server), keys_of(server)))]
        lock.release()
        client.barrier("barrier", 2).wait(30)
        for waiter in waiters:
            waiter.join()
    return "\n".join(lines) + "\n"


def keys_of(server):
    return server.command("KEYS", "*")


def server_form(server):
    reads = {
        "string": ("GET",),
        "zset": ("ZRANGE", 0, -1),
        "set": ("SMEMBERS",),
        "hash": ("HGETALL",),
    }

    def form(key):
        kind = server.command("TYPE", key)
        command, *args = reads[kind]
        return f"{key}  {kind}  {general(server.command(command, key, *args))!r}"

    return form


def general(value):
    """Replace what differs from run to run: ids, numbers, and what a client says of itself."""
    if isinstance(value, list):
        return [general(each) for each in value]
    text = re.sub(r'\{"host".*?\}', "{}", value)
    return re.sub(r"\d+", "0", re.sub(r"\b[0-9a-f]{16,32}\b", "x", text))


def test_a_change_of_the_layout_has_a_new_version(server):
    """Other keys, or other forms, are another layout, unless all older clients read them."""
    assert layout_of(server) == LAYOUT.read_text(), (
        "other clients may not be able to read this: raise LAYOUT_VERSION, write in"
        " docs/reference/versions.md what happens, and run python -m tests.faults.test_builds"
    )


def test_the_pages_name_the_layout():
    page = {name: (ROOT / f"docs/reference/{name}.md").read_text() for name in ("keys", "versions")}
    assert f"This is layout {LAYOUT_VERSION} of the keys." in page["keys"]
    assert f"a version of its own, which is {LAYOUT_VERSION} now." in page["versions"]


if __name__ == "__main__":
    with Server() as one:
        LAYOUT.write_text(layout_of(one))
