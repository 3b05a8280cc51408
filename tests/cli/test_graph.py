"""``fencelock graph``: who blocks whom."""

import contextlib
import os
import threading

import pytest

import fencelock
from tests.cli.shell import eventually


def waiting(client, name):
    return client.status(name).waiting == 1


@pytest.fixture
def chain(server):
    """A thread that holds a, one that holds b and waits for a, one that waits for b."""
    with contextlib.ExitStack() as clients:
        # Waiters of the holder's own client stand in no line of the server's.
        first, second, third = (clients.enter_context(fencelock.Client(server.url)) for _ in "123")
        held = first.lock("a")
        held.acquire()

        def take(client, *names):
            with contextlib.ExitStack() as inside:
                for name in names:
                    inside.enter_context(client.lock(name))

        threads = [
            threading.Thread(target=take, args=(second, "b", "a"), name="second"),
            threading.Thread(target=take, args=(third, "b"), name="third"),
        ]
        for thread, name in zip(threads, "ab", strict=True):
            thread.start()
            eventually(lambda name=name: waiting(first, name))
        yield
        held.release()
        for thread in threads:
            thread.join()


def test_a_chain_is_a_tree(shell, chain):
    me = f"{os.uname().nodename}:{os.getpid()}"
    shown = shell("graph", "--check")
    assert shown.status == 0
    root, below, last = shown.out.splitlines()
    assert root == f"{me} MainThread"
    assert below.startswith(f"  {me} second waits for a, ")
    assert last.startswith(f"    {me} third waits for b, ")


def test_show_tells_it_too_where_other_locks_are_behind_it(shell, chain):
    me = f"{os.uname().nodename}:{os.getpid()}"
    *_, said, root, below, last = shell("show", "b").out.splitlines()
    assert said == "who blocks whom:"
    assert root == f"{me} MainThread"
    assert below.startswith(f"  {me} second waits for a, ")
    assert last.startswith(f"    {me} third waits for b, ")
    waits = shell("show", "b", "--json").json["waits"]
    assert [each["name"] for each in waits] == ["a", "b"]


def test_show_tells_no_more_than_the_line_of_one_lock(shell, server):
    with fencelock.Client(server.url) as first, fencelock.Client(server.url) as second:
        held = first.lock("a")
        held.acquire()

        def take():
            with second.lock("a"):
                pass

        waits = threading.Thread(target=take)
        waits.start()
        eventually(lambda: waiting(first, "a"))
        assert "blocks" not in shell("show", "a").out
        held.release()
        waits.join()


def test_json_has_each_wait(shell, chain):
    told = shell("graph", "--json").json
    assert {
        (each["waiter"]["unit"], each["name"], each["holder"]["unit"]) for each in told["waits"]
    } == {
        ("second", "a", "MainThread"),
        ("third", "b", "second"),
    }
    assert all(each["certain"] and each["waited"] > 0 for each in told["waits"])
    assert told["cycles"] == []


def test_a_name_leaves_out_what_has_nothing_to_do_with_it(shell, chain):
    assert len(shell("graph", "b").out.splitlines()) == 3
    assert shell("graph", "c").out == ""
    assert shell("graph", "c").err == "fencelock: no waiters that have to do with 'c'\n"


def test_without_waiters_it_says_so(shell):
    shell("acquire", "x")
    assert shell("graph").err == "fencelock: no waiters\n"


def test_a_cycle_is_told(shell, server):
    """Also one whose waits take no part in the search for deadlocks."""
    both = threading.Barrier(2)

    def take(client, first, second):
        with contextlib.suppress(fencelock.FencelockError), client.lock(first):
            both.wait()
            with client.lock(second, timeout=20):
                pass

    with contextlib.ExitStack() as clients:
        ours = [
            clients.enter_context(fencelock.Client(server.url, deadlock_after=None)) for _ in "12"
        ]
        threads = [
            threading.Thread(target=take, args=(client, *pair), name=pair[0], daemon=True)
            for client, pair in zip(ours, ("ab", "ba"), strict=True)
        ]
        for thread in threads:
            thread.start()
        eventually(lambda: waiting(ours[0], "a") and waiting(ours[0], "b"))
        told = shell("graph").out
        (circle,) = shell("graph", "--json").json["cycles"]
        assert [each["name"] for each in circle] in (["a", "b"], ["b", "a"])
        assert "\n\ncycle: " in told
        assert "(see above)" in told
        assert shell("graph", "--check").status == 1
        ours[0].revoke("a", reason="a test")
        ours[0].revoke("b", reason="a test")
        for thread in threads:
            thread.join()


def test_threads_of_one_client_are_told_apart(shell, server):
    """The server knows only one of them; the client answers for the others."""
    me = f"{os.uname().nodename}:{os.getpid()}"

    def take():
        with client.lock("a"):
            pass

    with fencelock.Client(server.url) as client:
        with client.lock("a"):
            waits = threading.Thread(target=take, name="second")
            waits.start()
            eventually(lambda: client.status("a").local_waiters)
            root, below = eventually(lambda: two_lines(shell("graph")))
            told = shell("show", "a")
            (waiter,) = shell("show", "a", "--json").json["waiters"]
        waits.join()
    assert root == f"{me} MainThread"
    assert below.startswith(f"  {me} second waits for a, ")
    assert "0, and 1 for others of their client" in told.out
    assert (waiter["place"], waiter["unit"]) == (0, "second")


def two_lines(said):
    """Return the lines of an output with two of them: before that nobody hears the question."""
    lines = said.out.splitlines()
    return lines if len(lines) == 2 else None
