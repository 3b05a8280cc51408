"""Faults sown into what keeps leases while they are idle; each must be found."""

from fencelock._core.lock import cohort, kept, turns
from fencelock._core.lock.cohort import LocalLine
from tests.flows import kept as worlds
from tests.flows.seeded import Change, script, seed

SEEDS = (
    seed(
        "a lease that has grown is kept",
        Change(LocalLine, "self.linger <= left <= HANDOFF_TTL_SECONDS", "self.linger <= left"),
        worlds.GROWN,
        "I7",
    ),
    seed(
        "a lease is kept while a renewal may run",
        Change(LocalLine, "and _is_undisturbed(port, hold)", "and True"),
        worlds.GROWN.under(late=1),
        "I7",
    ),
    seed(
        "a recall of an idle lease has no effect",
        Change(LocalLine, "self.recalled = True", "return None"),
        worlds.TRIED,
        "kept",
    ),
    seed(
        "a lease that was recalled while it was used is kept",
        Change(LocalLine, "and not self.recalled", "and True"),
        worlds.WORKING,
        "kept",
    ),
    seed(
        "a turn of a kept lease has the fence of the turn before",
        Change(LocalLine, "Grant(kept.fence + 1,", "Grant(kept.fence,"),
        worlds.ALONE,
        "I3",
    ),
    seed(
        "an idle lease is never given up",
        Change(LocalLine, "port.renewals.watch(self, when)", "pass"),
        worlds.LATER,
        "kept I9",
    ),
    seed(
        "a closed client forgets an idle lease, and does not release it",
        Change(kept, "lines = list(port.lines.recalls.tenures.values())", "lines = []"),
        worlds.CLOSED_ALONE,
        "I9 kept",
    ),
    seed(
        "a kept lease goes on after its revocation",
        Change(cohort, "isinstance(front, KeptLease) and", "False and"),
        worlds.BROKEN,
        "I8",
    ),
    seed(
        "a lease is unchanged although another client held the lock",
        Change(turns, "hold.unchanged = given.unchanged", "hold.unchanged = True"),
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
        Change(kept, 'return b"idle" if', 'return b"busy" if'),
        worlds.ASKED,
        "kept",
    ),
    seed(
        "a kept lease is taken, and stays to be taken",
        Change(LocalLine, "self.front = waiter", "pass"),
        worlds.ALONE,
        "I1 I3 I6 I9",
    ),
)
