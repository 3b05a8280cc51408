"""Faults sown into locks in Redisson's layout."""

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Statement, script
from tests.flows.worlds import redisson as worlds

SEEDS = (
    seed(
        "a lock that is held is taken",
        script("redisson_acquire", "not again and call('EXISTS', KEYS[1]) == 1", "false"),
        worlds.ONE_EACH,
        "I1 I8",
        daily="redisson",
    ),
    seed(
        "a repeated question is not known again",
        script("redisson_acquire", "call('HEXISTS', KEYS[1], ARGV[1]) == 1", "false"),
        worlds.TRIES.under(lost=1),
        "I9",
    ),
    seed(
        "a token that stays",
        script("redisson_acquire", "call('INCR', KEYS[2])", "call('SETNX', KEYS[2], '1')"),
        worlds.TOKENS,
        "I3",
    ),
    seed(
        "the lock of another holder is released",
        script("redisson_count", "if held == 1 then", "if true then"),
        worlds.LONG.under(pause=1),
        "I1",
    ),
    seed(
        "a release that is not announced",
        script("redisson_count", "call('DEL', KEYS[1])\n    announce()", "call('DEL', KEYS[1])"),
        worlds.TWO,
        "I6",
    ),
    seed(
        "an undo that releases nothing",
        script("redisson_count", "if held == 1 then", "if held == 1 and ARGV[4] ~= '1' then"),
        worlds.IMPATIENT.under(late=1),
        "I9",
    ),
    seed(
        "a lost message is waited for",
        script("redisson_look", "== 1 and 0 or -1", "== 1 and 0 or 0"),
        worlds.TWO.under(wake=1),
        "I6",
    ),
    seed(
        "a renewal that does not look who holds",
        script("redisson_renew", "if held ~= 1 then", "if false then"),
        worlds.LONG.under(late=1),
        "I1 I11",
    ),
    seed(
        "a question that was given up keeps its field",
        Statement("redisson.rename", "self.field()", "own_id"),
        worlds.ONE_EACH.under(late=1),
        "I1 I4",
    ),
)
