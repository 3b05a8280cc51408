"""Faults sown into barriers."""

from math import inf

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, nothing, script
from tests.flows.worlds import barriers as worlds

SEEDS = (
    seed(
        "a time in which no party could be heard, counted as silence of all",
        script(
            "barrier_check", "is_in_doubt(heartbeat) and number('since') or heartbeat", "heartbeat"
        ),
        worlds.OUTAGE.under(down=1),
        "I7",
    ),
    seed(
        "an action whose party does not prove that it lives",
        Fault("barrier.prove", nothing),
        worlds.LONG.under(down=1),
        "I7",
    ),
    seed(
        "a cancelled party that breaks the barrier before its action began",
        Statement("barrier.leave", "b'abort' if self.place == ACTING else b'leave'", "b'abort'"),
        worlds.ACTS.under(cancel=1),
        "I7",
        daily="barrier",
    ),
    seed(
        "a party that is counted again when it repeats its request",
        script("barrier_arrive", "if call('HGET', KEYS[4], waiter) then", "if false then"),
        worlds.PAIR.under(lost=1),
        "I1 I4 I6",
    ),
    seed(
        "a party that is cancelled and keeps its place",
        script("barrier_check", "number('count') - 1", "number('count')"),
        worlds.PAIR.under(cancel=1),
        "I1",
        daily="barrier",
    ),
    seed(
        "a dead party that is not found",
        script("barrier_check", "end\nremove_dead()", "end"),
        worlds.WIDOW.under(crash=1),
        "I7",
    ),
    seed(
        "a timeout that does not break the barrier for the others",
        script("barrier_check", "return break_up('timeout')", "return"),
        worlds.ALONE,
        "I9",
    ),
    seed(
        "a generation that passes although the next one broke for all",
        script("barrier_check", "or 'passed'", "or field('broken') or 'passed'"),
        worlds.HASTY.under(wake=1),
        "I1",
    ),
    seed(
        "an action that runs when all have passed",
        script("barrier_arrive", "elseif ARGV[6] == '1' then", "elseif false then"),
        worlds.ACTS,
        "I4",
    ),
    seed(
        "an action whose end is reported without a bound",
        Statement(
            "barrier.act",
            "until = port.answer_by(port.now(), self.give_up_at)",
            "until = port.now() + port.server_timeout",
        ),
        worlds.FULL.under(down=1),
        "I13",
    ),
    seed(
        "a wait without bound",
        Fault("state.bound", lambda *_: inf),
        worlds.PAIR.under(wake=1),
        "I6",
    ),
    seed(
        "an index that two parties have",
        script("barrier_arrive", "call('HSET', KEYS[1], 'next', index + 1)", ""),
        worlds.PAIR,
        "I1",
    ),
)
