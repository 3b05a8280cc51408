"""A key that is removed under its holder: nobody took it, and the reason of the loss says so."""

import pytest

from fencelock import LeaseLost

WAYS = {
    "lock": (lambda client: client.lock("a"), "release"),
    "rlock": (lambda client: client.rlock("a"), "release"),
    "owner": pytest.param(
        lambda client: client.rlock("a", owner="job"), "release", marks=pytest.mark.no_quorum
    ),
    "read": pytest.param(
        lambda client: client.rwlock("a").read, "release", marks=pytest.mark.no_quorum
    ),
    "write": pytest.param(
        lambda client: client.rwlock("a").write, "release", marks=pytest.mark.no_quorum
    ),
    "semaphore": pytest.param(
        lambda client: client.semaphore("a", 2), "release", marks=pytest.mark.no_quorum
    ),
    "multi": pytest.param(
        lambda client: client.multi(["a", "b"]), "release", marks=pytest.mark.no_quorum
    ),
}


@pytest.mark.parametrize(("make", "how"), [*WAYS.values()], ids=[*WAYS])
async def test_a_key_that_was_removed_was_not_taken(world, make, how):
    """An operator's DEL, an eviction, a restart without data: "expired", as a renewal says too."""
    held = make(world.client())
    await held.acquire()
    world.server.command("DEL", world.key("a"))
    with pytest.raises(LeaseLost) as lost:
        await getattr(held, how)()
    assert (lost.value.name, lost.value.reason) == ("a", "expired")


@pytest.mark.no_quorum  # it has no elections
async def test_a_leadership_that_was_removed_was_not_taken(world):
    ann = world.client().election("a", candidate="ann")
    await ann.campaign()
    world.server.command("DEL", world.key("a"))
    with pytest.raises(LeaseLost) as lost:
        await ann.hand_over("bob")
    assert lost.value.reason == "expired"
