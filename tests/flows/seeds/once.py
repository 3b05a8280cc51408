"""Faults sown into ``once``."""

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Statement, Without, script
from tests.flows.worlds import runs_once

SEEDS = (
    seed(
        "a run begins though it is done",
        script("once_start", "redis.call('EXISTS', KEYS[6]) == 1", "false"),
        runs_once.TWO,
        "I1",
        daily="once",
    ),
    seed(
        "a caller that waits for the result is not notified",
        script("once_finish", "send_grant(channel, waiter, '0', now, '60000')", ""),
        runs_once.SHORT,
        "I6",
    ),
    seed(
        "a caller that waits for the result stays in line and is granted the lock",
        script("once_finish", "call('ZREM', KEYS[3], entry)", ""),
        runs_once.WORKING,
        "I1",
    ),
    seed(
        "a run that was overtaken keeps its result",
        script("once_finish", "current ~= holder and (current or last ~= holder", "false and (nil"),
        runs_once.LONG.under(pause=1),
        "I1",
    ),
    seed(
        "the lock is kept when the run is done",
        script("once_finish", "hand_over(1, ARGV[2])", "grant_next(1, '', ARGV[2])"),
        runs_once.BESIDE_LOCK,
        "I1 I6 I9",
    ),
    seed(
        "a repeated end is refused",
        script("once_finish", "if kept == holder then return 1 end", ""),
        runs_once.BESIDE_LOCK.under(lost=1),
        "I4",
    ),
    seed(
        "the end of a run that outlasted its lease is not noticed",
        Statement("once.finish", "if hold.lost:", "if False:"),
        runs_once.ALONE_WORKING.under(pause=1),
        "I8",
        daily="once",
    ),
    seed(
        "an end without a reply is not repeated",
        Without("wire.post", by="once.finish"),
        runs_once.ALONE.under(lost=1, cancel=1),
        "I9",
    ),
)
