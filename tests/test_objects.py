"""What a client makes is known wherever users meet it: in hints, types and the command.

That pages, docstrings and the public surface know it is said by other tests of this folder. A new
factory gets a line in ``STAND``: how what it makes comes to stand on a server, where commands find
it.
"""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fencelock
from fencelock._runtime.hints import MAKERS
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
FACTORIES = {
    name: made
    for name, function in inspect.getmembers(fencelock.Client, inspect.isfunction)
    if (made := str(inspect.signature(function).return_annotation).partition("[")[0]) in MADE
}
# Factory → how to make one, and the call by which it stands on the server.
STAND = {
    "barrier": (lambda client, name: client.barrier(name, 1), "wait"),
    "bounded_semaphore": (lambda client, name: client.bounded_semaphore(name, 2), "acquire"),
    "election": (lambda client, name: client.election(name), "campaign"),
    "event": (lambda client, name: client.event(name), "set"),
    "latch": (lambda client, name: client.latch(name, 2), "count_down"),
    "lock": (lambda client, name: client.lock(name), "acquire"),
    "multi": (lambda client, name: client.multi([name]), "acquire"),
    "once": (lambda client, name: client.once(name, within=60)(lambda: 7), "__call__"),
    "rlock": (lambda client, name: client.rlock(name), "acquire"),
    "rwlock": (lambda client, name: client.rwlock(name).read, "acquire"),
    "semaphore": (lambda client, name: client.semaphore(name, 2), "acquire"),
}


@pytest.mark.parametrize("made", sorted(MADE))
def test_a_wrong_construction_says_which_call_makes_it(made):
    assert MAKERS[made].partition("(")[0] in FACTORIES


@pytest.mark.parametrize("factory", FACTORIES)
def test_type_checkers_see_what_a_factory_returns(factory):
    for client, face in zip(FACES, ("", "Async"), strict=True):
        assert f"({client}.{factory}(" in USAGES
        assert f"fencelock.{face}{FACTORIES[factory]}" in USAGES


@pytest.fixture(scope="module")
def listed():
    """Return what ``fencelock ls`` lists when all stand, by name."""
    with Server() as server, fencelock.Client(server.url) as client:
        made = {name: make(client, name) for name, (make, _) in STAND.items()}
        for name, (_, stand) in STAND.items():
            getattr(made[name], stand)()
        command = [sys.executable, "-m", "fencelock", "ls", "--all", "--json", "--url", server.url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {row["name"]: row for row in json.loads(done.stdout)}


@pytest.mark.parametrize("factory", FACTORIES)
def test_the_command_lists_it(factory, listed):
    assert listed[factory].get("kind", "lock") != "other"
