"""Faults sown into what keeps leases while they are idle; each must be found."""

from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, changed, given, nothing, script, several
from tests.flows.worlds import kept as worlds


def however_long(real, self, hold, *given):
    """Decide as if little of the lease were left."""
    now, _ = given
    with changed(hold, deadline=min(hold.deadline, now + HANDOFF_TTL_SECONDS)):
        return real(self, hold, *given)


async def as_if_unchanged(real, *args):
    """Begin a turn, and say that no other client held the lock."""
    hold = await real(*args)
    if hold is not None:
        hold.unchanged = True
    return hold


SEEDS = (
    seed(
        "a lease that has grown is kept",
        Fault("tenure.may_keep", however_long),
        worlds.GROWN,
        "I7",
    ),
    seed(
        "a lease is kept while a renewal may run",
        Statement("tenure.may_grow", "self._port.renewals.is_under_way(hold)", "False"),
        worlds.GROWN.under(late=1),
        "I7",
    ),
    seed(
        "a recall of an idle lease has no effect",
        Fault("tenure.recall", nothing),
        worlds.TRIED,
        "kept",
    ),
    seed(
        "a lease that was recalled while it was used is kept",
        Fault("tenure.may_keep", given(recalled=False)),
        worlds.WORKING,
        "kept",
    ),
    seed(
        "a turn of a kept lease has the fence of the turn before",
        Fault("tenure.next_fence", lambda _real, fence: fence),
        worlds.ALONE,
        "I3",
    ),
    seed(
        "an idle lease is never given up",
        Fault("keeper.watch", nothing),
        worlds.LATER,
        "kept I9",
    ),
    seed(
        "a closed client forgets an idle lease, and does not release it",
        Fault("tenure.give_up_kept", nothing),
        worlds.CLOSED_ALONE,
        "I9 kept",
    ),
    seed(
        "a kept lease goes on after its revocation",
        several(
            Statement("tenure.revoke", "tenure.give_up()", "None"),
            Fault("line.remember_revoked", nothing),
        ),
        worlds.BROKEN,
        "I8",
    ),
    seed(
        "a lease is unchanged although another client held the lock",
        Fault("tenure.begin_turn", as_if_unchanged),
        worlds.BOTH,
        "unchanged",
    ),
    seed(
        "a try that finds the lock held recalls nothing",
        script("acquire", "redis.pcall('PUBLISH', client_channel, 'recall '", "tostring('recall '"),
        worlds.TRIED,
        "kept",
    ),
    seed(
        "a client says that it uses what it keeps",
        Fault("tenure.state", lambda *_: b"busy"),
        worlds.ASKED,
        "kept",
    ),
    seed(
        "a kept lease is taken, and stays to be taken",
        Statement("tenure.take_kept", "self.front = attempt", "pass"),
        worlds.ALONE,
        "I1 I3 I6 I9",
    ),
)
