"""What works on Windows and macOS, in processes that lack what those systems lack.

The server runs on Linux, as a real one. See ``simulated.py`` for what such a process can show.
"""

from __future__ import annotations

import json

import pytest

from tests.servers import Server
from tests.threads.state import program
from tests.topologies.quorum import Quorum

SECONDS = 60.0
SYSTEMS = ("windows", "macos")

HEAD = """
import sys
from tests.systems import simulated
which, url = sys.argv[1:]
getattr(simulated, which)()
import asyncio, contextlib, io, json, threading
import fencelock
from fencelock._runtime.clock import now

def until(holds):
    end = now() + 20
    while not holds():
        assert now() < end, holds
        threading.Event().wait(0.01)
"""

THREADS = """
with fencelock.Client(url) as ours, fencelock.Client(url) as theirs:
    # Renewed: after its ttl it is still held, and its loss is heard of.
    with ours.lock("renewed", ttl=2) as lease:
        first = lease.deadline
        while lease.deadline < first + 0.5:
            assert theirs.lock("renewed").locked()
    lock = ours.lock("revoked", ttl=30)
    lock.acquire()
    lease = lock.lease
    until(lambda: ours._port._renewal_thread.hears)
    theirs.revoke("revoked", reason="a test")
    until(lambda: lease.lost)

    # A turn is handed over, to another client and within one.
    got = []
    for other in (theirs, ours):
        held, wanted = ours.lock("turns"), other.lock("turns")
        held.acquire()
        waiter = threading.Thread(target=lambda: got.append(wanted.acquire(timeout=20)))
        waiter.start()
        until(lambda: ours.status("turns").waiting or other is ours)
        held.release()
        waiter.join()
        theirs.revoke("turns", reason="the next round")
    assert got == [True, True]

    # A wait ends in time, though nothing comes.
    with theirs.lock("busy"):
        began = now()
        assert not ours.lock("busy").acquire(timeout=0.3)
        assert 0.3 <= now() - began < 5
    with ours.semaphore("s", 2), ours.rwlock("r").write, ours.multi(["x", "y"]): pass
"""

TASKS = """
async def main():
    async with fencelock.AsyncClient(url) as ours, fencelock.AsyncClient(url) as theirs:
        async with ours.lock("renewed", ttl=2) as lease:
            first = lease.deadline
            while lease.deadline < first + 0.5:
                assert await theirs.lock("renewed").locked()
        turns = 0

        async def turn(client):
            nonlocal turns
            async with client.lock("turns"):
                turns += 1

        await asyncio.gather(*(turn(client) for client in (ours, theirs) * 10))
        assert turns == 20
        async with theirs.lock("busy"):
            assert not await ours.lock("busy").acquire(timeout=0.3)

loop = simulated.WindowsLoop if which == "windows" else None
with asyncio.Runner(loop_factory=loop) as runner:
    runner.run(main())
"""

QUORUM = """
with fencelock.Client(url) as ours, fencelock.Client(url) as theirs:
    with ours.lock("renewed", ttl=2) as lease:
        first = lease.deadline
        while lease.deadline < first + 0.5:
            assert theirs.lock("renewed").locked()
"""

COMMANDS = """
import fencelock.cli

def run(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = fencelock.cli.main(list(words))
    return status, out.getvalue(), err.getvalue()

print(json.dumps([run(*words) for words in json.loads(sys.stdin.read())]))
"""


@pytest.fixture(scope="module")
def url():
    """Lend the address of one server, where Python has no Unix sockets."""
    with Server(unix=False) as server:
        yield server.url


def play(which, url, story, said="", before=""):
    """Run a story in a process of that system; return what it prints.

    ``before`` is done before it becomes one.
    """
    with program(before + HEAD + story, which, url) as running:
        out, err = running.communicate(said, timeout=SECONDS)
        assert running.returncode == 0, out + err
        assert "failed" not in err, err
    return out


def commands(which, url, *commands):
    """Return what commands end with and print, run one after the other in one process."""
    words = [command.split() for command in commands]
    return json.loads(play(which, url, COMMANDS, json.dumps(words)))


@pytest.mark.parametrize("which", SYSTEMS)
def test_threads_hold_renew_hand_over_and_wait(which, url):
    play(which, url, THREADS)


@pytest.mark.parametrize("which", SYSTEMS)
def test_tasks_hold_renew_hand_over_and_wait(which, url):
    play(which, url, TASKS)


def test_a_lock_of_a_quorum_is_renewed_on_windows():
    with Quorum(3) as servers:
        play("windows", ",".join(each.tcp_url for each in servers.nodes), QUORUM)


def test_commands_that_need_no_process_group_work_on_windows(url):
    server = f"--url {url}"
    *plain, released, completed = commands(
        "windows",
        url,
        f"acquire a --ttl 30 --json {server}",
        f"ls {server}",
        f"show a {server}",
        f"wait a --no-wait {server}",
        f"history {server}",
        f"doctor {server}",
        f"revoke a --yes --reason done {server}",
        f"wait a {server}",
        "completion bash",
    )
    assert [status for status, _, _ in plain] == [0, 0, 0, 75, 0, 0, 0], plain
    assert released[0] == 0
    assert "doctor" in completed[1]
    assert "elect" not in completed[1]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("run a -- true", "process groups"),
        ("once a --within 1h -- true", "process groups"),
        ("elect a -- true", "process groups"),
        ("server start", "set FENCELOCK_URL"),
        ("server status", "set FENCELOCK_URL"),
        ("ls", "set FENCELOCK_URL"),
        ("ls --url unix:///tmp/s", "no Unix sockets"),
    ],
)
def test_what_windows_cannot_do_is_refused_in_a_sentence(command, says, url):
    ((status, out, err),) = commands("windows", url, command)
    assert status in {64, 69}
    assert out == ""
    assert says in err
    assert "Traceback" not in err


def test_the_plugin_of_pytest_is_loaded_on_windows_and_says_what_it_cannot(url):
    story = """
from fencelock.testing import plugin
from fencelock.testing.run_dir import RunDirectory
try: RunDirectory()
except fencelock.ServerUnreachable as error: assert "inactive()" in str(error)
else: raise AssertionError("a server on this system?")
"""
    play("windows", url, story, before="import pytest\n")


def test_a_command_runs_under_a_lock_on_macos(url):
    story = """
import fencelock.cli
command = 'test -n "$FENCELOCK_FENCE" && exit 3'
assert fencelock.cli.main(["run", "a", "--url", url, "--", "sh", "-c", command]) == 3
"""
    play("macos", url, story)
