"""What a client makes is known wherever users meet it: in hints, types and the command.

That pages, docstrings and the public surface know it is said by other tests of this folder.
"""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fencelock
from fencelock._runtime.hints import MAKERS
from tests.factories import OBJECTS, make
from tests.servers import Server

ROOT = Path(__file__).resolve().parent.parent
USAGES = (ROOT / "tests" / "typing" / "usages.py").read_text()
FACES = ("client", "tasks")  # as tests/typing/usages.py calls a client of each

PUBLIC = {
    name
    for name in fencelock.__all__
    if getattr(fencelock, name).__module__.startswith("fencelock.blocking.")
}
MADE = PUBLIC - {"Client", "Lease", "MultiLease"}
# Factory → how what it makes comes to stand on a server, if that takes no ``acquire``.
STAND = {
    "barrier": lambda made: made.wait(),
    "election": lambda made: made.campaign(),
    "event": lambda made: made.set(),
    "latch": lambda made: made.count_down(),
    "once": lambda made: made.run(lambda: 7),
    "rwlock": lambda made: made.read.acquire(),
}


@pytest.mark.parametrize("made", sorted(MADE))
def test_a_wrong_construction_says_which_call_makes_it(made):
    assert MAKERS[made].partition("(")[0] in OBJECTS


@pytest.mark.parametrize("factory", OBJECTS)
def test_type_checkers_see_what_a_factory_returns(factory):
    made = inspect.signature(getattr(fencelock.Client, factory)).return_annotation
    for client, face in zip(FACES, ("", "Async"), strict=True):
        assert f"({client}.{factory}(" in USAGES
        assert f"fencelock.{face}{made.partition('[')[0]}" in USAGES


@pytest.fixture(scope="module")
def listed():
    """Return what ``fencelock ls`` lists when all stand, by name."""
    with Server() as server, fencelock.Client(server.url) as client:
        made = {name: make(client, name, name) for name in OBJECTS}
        for name, each in made.items():
            STAND.get(name, lambda lock: lock.acquire())(each)
        command = [sys.executable, "-m", "fencelock", "ls", "--all", "--json", "--url", server.url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {row["name"]: row for row in json.loads(done.stdout)}


@pytest.mark.parametrize("factory", OBJECTS)
def test_the_command_lists_it(factory, listed):
    assert listed[factory].get("kind", "lock") != "other"
