"""Faults sown where replicas acknowledge, and fail over."""

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, never, nothing
from tests.flows.worlds import acknowledged as worlds

SEEDS = (
    seed(
        "a grant that is reported though no replica acknowledged it",
        Statement("engine.enough_replicas", "count < wanted or port.now() >= deadline", "False"),
        worlds.TWO_WORKING.under(unacked=1, failover=1),
        "I1 I2",
    ),
    seed(
        "a handed-over grant that is not counted",
        Fault("attempt.pushed_counts", lambda _real, _self, grant: grant),
        worlds.TWO_WORKING.under(failover=1),
        "I1",
    ),
    seed(
        "a grant that is not counted",
        Fault("attempt.counts", never),
        worlds.TWO_WORKING.under(failover=1),
        "I1",
    ),
    seed(
        "a renewal that counts unacknowledged",
        Statement("keeper.renew_batch", "if missing is None:", "if True:"),
        worlds.TWO_LONG.under(unacked=1, failover=1),
        "I1 I2",
    ),
    seed(
        "a result that is read only once replicas have acknowledged it",
        Fault("attempt.counts", lambda _real, reply: isinstance(reply, bytes)),
        worlds.ONCE.under(unacked=1).threads(),  # tasks are in line before time passes
        "I12",
        daily="replicas",
    ),
    seed(
        "a result that a waiter gets once replicas have acknowledged it",
        Statement(
            "attempt.pushed_counts",
            "not grant.fence or grant.deadline <= port.now()",
            "grant.deadline <= port.now()",
        ),
        worlds.ONCE_SHORT.under(unacked=1),
        "I12",
    ),
    seed(
        "an unacknowledged grant that stays",
        Fault("attempt.undo", nothing),
        worlds.TWO.under(unacked=1),
        "I9",
        daily="replicas",
    ),
)
