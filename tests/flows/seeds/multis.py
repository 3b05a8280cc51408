"""Faults sown into ``multi``."""

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, Without, script
from tests.flows.worlds import multis

SEEDS = (
    seed(
        "a fixed lease that is handed over starts short",
        Fault("terms.handoff_ttl", lambda *_: 2.0),
        multis.FIXED_BRIEF,
        "L I2",
    ),
    seed(
        "a waiter in line is overtaken",
        script("multi_acquire", "call('EXISTS', KEYS[base + 2]) == 1", "false"),
        multis.OVERTAKING.under(expiry=1),
        "I5",
    ),
    seed(
        "a lock that is held is taken",
        script(
            "multi_acquire",
            "if current and current ~= holder then\n    if recall",
            "if false then\n    if recall",
        ),
        multis.TWO,
        "I1 I4 I8 L",
    ),
    seed(
        "a repeated request is refused",
        script("multi_acquire", "current and current ~= holder", "current"),
        multis.TRIES.under(lost=1),
        "I9 I12",
    ),
    seed(
        "the lock of another holder is released",
        script("multi_release", "redis.pcall('GET', KEYS[base]) == holder", "true"),
        multis.WORKING.under(late=1),
        "I1",
    ),
    seed(
        "a part whose request was repeated may still arrive after the release",
        Without("attempt.undo_owed", by="joint.release"),
        multis.BESIDE_FIRST.under(late=1, wake=1),
        "I9",
    ),
    seed(
        "an undo of several locks that overtakes its request",
        Statement("joint.undo", "seat.path", "None"),
        multis.TRIES.under(cancel=1).threads(),
        "I9",
    ),
    seed(
        "the next in line is not granted",
        script("multi_release", "hand_over(base, ARGV[1])", "call('DEL', KEYS[base])"),
        multis.TWO,
        "I5 I6",
    ),
    seed(
        "a permit is not released at the timeout",
        Without("joint.drop", by="joint.in_order"),
        multis.PERMIT_IMPATIENT,
        "I9 I11",
    ),
    seed(
        "a repeated release of a part is refused",
        Statement("joint.ask", "self.unsure.add(part)", "pass"),
        multis.PERMIT_TWO.under(lost=1),
        "I4",
    ),
    seed(
        "a timeout that leaves a line and then releases, each with a time of its own",
        Statement("joint.drop", "max(now, give_up_at + DROPPING_SECONDS)", "inf"),
        multis.BESIDE_LAST_IMPATIENT.under(late=2),
        "I13",
    ),
    seed(
        "a timeout keeps what it has",
        Without("joint.drop", by="joint.in_order"),
        multis.BESIDE_LAST_IMPATIENT,
        "I9 I11",
        daily="multi",
    ),
    seed(
        "a cancelled wait keeps what it has",
        Without("engine.release_later", by="joint.undo"),
        multis.BESIDE_LAST.under(cancel=1),
        "I9",
    ),
    seed(
        "a cancelled request is not undone",
        Without("wire.post", by="joint.undo"),
        multis.ALONE.under(cancel=1),
        "I9",
    ),
    seed(
        "it is granted with a lease that is lost",
        Statement("joint.acquire", "not granted or not any(hold.lost for hold in holds)", "True"),
        multis.BESIDE_LAST_IMPATIENT.under(pause=1),
        "I8",
        daily="multi",
    ),
)
