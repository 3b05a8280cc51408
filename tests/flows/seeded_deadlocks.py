"""Faults sown into what finds deadlocks; each must be found."""

from fencelock._core.deadlock import chase, probe, unit_waits
from fencelock._core.lock import acquire
from fencelock._core.quorum import acquire as quorum_acquire
from tests.flows import deadlocks as worlds
from tests.flows import quorum_deadlocks as quorums
from tests.flows.seeded import Change, script, seed

SEEDS = (
    seed(
        "a wait never looks for a cycle",
        Change(unit_waits, "port.now() + request.options.deadlock_after", "inf"),
        worlds.TWO,
        "I6",
    ),
    seed(
        "a cycle that was seen once is taken for true",
        Change(chase, "if not probe.cycle:", "if False:"),
        worlds.SKEWED.threads(),
        "deadlock",
    ),
    seed(
        "a lock is taken to be released by the unit that acquired it",
        Change(chase, "if all(step.certain for step in probe.path):", "if True:"),
        worlds.LENT,
        "deadlock",
    ),
    seed(
        "a unit that waits for itself is found as late as others",
        Change(unit_waits, "not known and _is_held_by_itself(port, request, wait.frames)", "False"),
        worlds.ITSELF,
        "deadlock",
    ),
    seed(
        "each wait of a cycle refuses itself",
        Change(chase, "elif youngest(probe.path).wait == _text(wait.id):", "else:"),
        worlds.AT_ONCE,
        "deadlock",
    ),
    seed(
        "the oldest wait of a cycle is refused",
        Change(probe, "return max(cycle,", "return min(cycle,"),
        worlds.TWO,
        "deadlock",
    ),
    seed(
        "a refused wait goes on",
        Change(acquire, "if wait.cycle is not None and", "if False and"),
        worlds.TWO,
        "I6",
    ),
    seed(
        "a thread that reads its own connection is not told that its wait is refused",
        Change(chase, "if not waiter.local:", "if False:"),
        worlds.TWO.threads(),
        "deadlock",
    ),
    seed(
        "a wait stays in the table when it is over",
        Change(unit_waits, "port.waits.end(request.unit, request.unit_wait)", "pass"),
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
QUORUM_SEEDS = (
    seed(
        "the part of a quorum's lease at one node is not taken for the whole",
        Change(chase, "port, whole = hold.port, hold.whole", "port, whole = hold.port, hold"),
        quorums.TWO,
        "I6",
    ),
    seed(
        "a wait at a node stays in the table when it is over",
        Change(quorum_acquire, "left(port, request)", "pass"),
        quorums.TWO,
        "I9",
    ),
)
