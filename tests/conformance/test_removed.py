"""A key that is removed under its holder: nobody took it, and the reason of the loss says so."""

import pytest

from fencelock import LeaseLost
from tests.kinds import MADE

KINDS = [
    pytest.param(kind, marks=() if kind in {"lock", "rlock"} else pytest.mark.no_quorum)
    for kind in MADE
    if kind != "permits"  # which are only entered
]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_key_that_was_removed_was_not_taken(world, kind):
    """An operator's DEL, an eviction, a restart without data: "expired", as a renewal says too."""
    held = MADE[kind](world.client())
    await held.acquire()
    world.server.command("DEL", world.key("a"))
    with pytest.raises(LeaseLost) as lost:
        await held.release()
    assert (lost.value.name, lost.value.reason) == ("a", "expired")
