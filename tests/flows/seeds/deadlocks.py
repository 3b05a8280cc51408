"""Faults sown into what finds deadlocks; each must be found."""

from math import inf
from operator import attrgetter

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, Without, never, script
from tests.flows.worlds import deadlocks as worlds
from tests.flows.worlds import quorum_deadlocks as quorums


def late(real, *args):
    """Enter a wait that never looks for a cycle."""
    wait = real(*args)
    wait.due = inf
    return wait


def refusing_itself(real, wait, probe):
    """Take a cycle for a reason to refuse whichever wait finds it."""
    if probe.cycle:
        wait.refuse(probe.path)
    else:
        real(wait, probe)


SEEDS = (
    seed(
        "a wait never looks for a cycle",
        Fault("deadlock.entered", late),
        worlds.TWO,
        "I6",
    ),
    seed(
        "a cycle that was seen once is taken for true",
        Fault(
            "deadlock.came_back",
            lambda real, wait, probe: real(wait, probe._replace(cycle=probe.path)),
        ),
        worlds.SKEWED.threads(),
        "deadlock",
    ),
    seed(
        "a lock is taken to be released by the unit that acquired it",
        Statement(
            "deadlock.came_back",
            "certain = all((step.certain for step in probe.path))",
            "certain = True",
        ),
        worlds.LENT,
        "deadlock",
    ),
    seed(
        "a unit that waits for itself is found as late as others",
        Fault("deadlock.held_by_itself", never),
        worlds.ITSELF,
        "deadlock",
    ),
    seed(
        "each wait of a cycle refuses itself",
        Fault("deadlock.came_back", refusing_itself),
        worlds.AT_ONCE,
        "deadlock",
    ),
    seed(
        "the oldest wait of a cycle is refused",
        Fault(
            "deadlock.youngest",
            lambda _real, cycle: min(cycle, key=attrgetter("arrived_us", "wait")),
        ),
        worlds.TWO,
        "deadlock",
    ),
    seed(
        "a refused wait goes on",
        Statement("attempt.wait", "wait.cycle is not None and asks.granted(now) is None", "False"),
        worlds.TWO,
        "I6",
    ),
    seed(
        "a thread that reads its own connection is not told that its wait is refused",
        Without("wire.post", by="deadlock.refuse"),
        worlds.TWO.threads(),
        "deadlock",
    ),
    seed(
        "a wait stays in the table when it is over",
        Without("deadlock.wait_ends", by="deadlock.left"),
        worlds.TWO,
        "I9",
    ),
    seed(
        "a waiter for one permit is taken to wait for each of those that have one",
        script("shares_probe", "limit - permits < most", "limit >= most"),
        worlds.PERMITS,
        "deadlock",
    ),
    seed(
        "a reader behind a writer is not taken to wait for the readers before it",
        script("shares_probe", "before = math.max(before, tonumber(permits))", "before = before"),
        worlds.WRITER_BETWEEN,
        "I6",
    ),
    seed(
        "a probe does not reach the holder of a lock",
        script("probe", "redis.pcall('PUBLISH', client_channel, 'probe '", "tostring('probe '"),
        worlds.TWO,
        "I6",
    ),
)
NIGHTLY_SEEDS = (
    seed(
        "the part of a quorum's lease at one node is not taken for the whole",
        Statement("deadlock.passes", "hold.user_lease", "hold"),
        quorums.TWO,
        "I6",
    ),
    seed(
        "a wait at a node stays in the table when it is over",
        Without("deadlock.left", by="quorum.ask_first"),
        quorums.TWO,
        "I9",
    ),
)
