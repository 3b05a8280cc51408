"""``ls``, ``show`` and ``revoke`` of events, latches and barriers."""

import threading

import pytest

import fencelock
from tests.cli.shell import eventually


@pytest.fixture
def client(server):
    with fencelock.Client(server.url) as made:
        yield made


def test_ls_lists_them_beside_the_locks(shell, client):
    client.event("ready").set()
    client.latch("parts", 3).count_down()
    client.barrier("step", 2).reset()
    client.event("other").clear()
    lines = shell("ls").out.splitlines()
    assert lines[0].split() == ["NAME", "KIND", "STATE", "WAITING", "KEPT", "FOR"]
    assert [" ".join(line.split()[:-2]) for line in lines[1:]] == [
        "other event clear",
        "parts latch closed, 2 of 3 left",
        "ready event set",
        "step barrier 0 of 2 have come",
    ]
    shell("acquire", "orders:1")
    lines = shell("ls").out.splitlines()
    assert (lines[1].split()[0], lines[2]) == ("orders:1", "")
    assert [each["name"] for each in shell("ls", "r*", "--json").json] == ["ready"]


def test_what_had_been_a_semaphore_is_shown_as_what_it_is_now(shell, client):
    with client.semaphore("ready", 2):
        pass
    client.event("ready").set()
    assert shell("show", "ready", "--json").json["kind"] == "event"
    assert [each["kind"] for each in shell("ls", "--json").json] == ["event"]


def until_broken(barrier, heard):
    try:
        barrier.wait()
    except fencelock.BarrierBroken as broken:
        heard.append(broken.reason)


def test_show_tells_of_one(shell, client):
    barrier = client.barrier("step", 3)
    party = threading.Thread(target=until_broken, args=(barrier, []))
    party.start()
    told = eventually(
        lambda: (each := shell("show", "step", "--json").json).get("waiting") == 1 and each
    )
    assert (told["kind"], told["state"], told["count"], told["of"]) == ("barrier", "filling", 1, 3)
    assert told["key"] == "fencelock:step"
    assert "1 of 3 have come" in shell("show", "step").out
    barrier.abort()
    party.join()
    assert "broken: abort" in shell("show", "step").out


def test_revoke_breaks_a_barrier(shell, client):
    barrier = client.barrier("step", 2)
    heard = []
    party = threading.Thread(target=until_broken, args=(barrier, heard))
    party.start()
    eventually(lambda: barrier.n_waiting == 1)
    result = shell("revoke", "step", "--reason", "no more", "--yes")
    party.join()
    assert result.status == 0
    assert "step was a barrier, 1 of 2 have come" in result.out
    assert heard == ["abort"]
    assert barrier.broken


def test_revoke_does_not_know_what_nobody_holds(shell, client):
    client.event("ready").set()
    result = shell("revoke", "ready", "--reason", "x", "--yes")
    assert result.status != 0
    assert "is a event" not in result.err
    assert "'ready' is an event: it has no holder" in result.err
    assert client.event("ready").is_set()
