"""Faults sown into the flows and scripts of a quorum."""

from math import inf

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, Without, always, given, nothing, script, several
from tests.flows.worlds import quorums as worlds

SEEDS = (
    seed(
        "a quorum: one node of three counts as a majority",
        Statement("quorum.begin", "majority(len(labels))", "1"),
        worlds.TRIES.under(silent=1),
        "I1 I2 I3",
    ),
    seed(
        "a quorum: a node votes for two clients at once",
        script("quorum_vote", "if current and current ~= holder then", "if false then"),
        worlds.ABSENT.under(silent=1),
        "I1 I2 I4 I11",
    ),
    seed(
        "a quorum: the largest fence stays on the node that gave it",
        Fault("quorum.written", always),
        worlds.ALONE_TWICE.under(silent=1),
        "I3",
    ),
    seed(
        "a quorum: a fence is not written back",
        script("raise_fence", "if tonumber(last) < fence then", "if false then"),
        worlds.ALONE_TWICE.under(silent=1),
        "I3",
    ),
    seed(
        "a quorum: a node that was restarted votes at once",
        Fault("quorum.forgets_nothing_from", lambda *_: -inf),
        worlds.ABSENT.under(restart=1),
        "I1",
        daily="quorum",
    ),
    seed(
        "a quorum: the vote of a node that was restarted meanwhile counts",
        Fault("quorum.voting", lambda _real, self: len(self.grants) >= self.port.needed),
        worlds.ABSENT.under(restart=1),
        "I1",
    ),
    seed(
        "a quorum: an id that was given up is used again",
        Statement(
            "quorum.rename",
            "self.attempt.id = self.attempt.holder_id = self.port.new_id()",
            "pass",
        ),
        worlds.ALONE_WORKING.under(late=1, down=1).threads(),
        "I1 I2 I4",
    ),
    seed(
        "a quorum: a node is reacquired with an id that was given up there",
        Fault("quorum.another_id", lambda _real, self: self.hold.holder_id),
        worlds.ALONE_LONG.under(late=1).threads(),
        "I1 I2",
    ),
    seed(
        "a quorum: partial grants are not released",
        Fault("quorum.give_back_part", nothing),
        worlds.ABSENT.under(silent=1),
        "I6 I9",
    ),
    seed(
        "a quorum: a silent node is not undone after a grant",
        Statement(
            "quorum.ask_others",
            "self.asks.undo(all_of_them=True, but=grants)",
            "pass",
        ),
        worlds.TWO.under(late=1),
        "I9",
        daily="quorum",
    ),
    seed(
        "a quorum: votes are not undone after a cancellation",
        Statement("quorum.undo", "self.asks.undo(all_of_them=True)", "pass"),
        worlds.ALONE.under(cancel=1).threads(),
        "I9",
    ),
    seed(
        "a quorum: a release without a reply is not repeated",
        Fault("quorum.release_again", nothing),
        worlds.ALONE.under(silent=1),
        "I9",
    ),
    seed(
        "a quorum: a vote counts from its reply",
        Statement("quorum.count", "ask.asked_at", "ask.answered_at"),
        worlds.ALONE_FIXED.under(late=2),
        "I2",
    ),
    seed(
        "a quorum: a renewal by hand counts from its reply",
        Statement("quorum.renew_parts", "ask.asked_at", "ask.answered_at"),
        worlds.ALONE_BY_HAND.under(late=2),
        "I2",
    ),
    seed(
        "a quorum: a lost majority is not reported",
        several(
            Without("keeper.lose", by="quorum.lost"), Without("hold.lose", by="quorum.check_gap")
        ),
        worlds.ALONE_OF_TWO.under(down=1),
        "I6 I8",
    ),
    seed(
        "a quorum: what is left of a lost lease is given back while the body works",
        Statement("quorum.part_lost", "reason == 'revoked'", "True"),
        worlds.BARE.under(restart=1),
        "I1",
    ),
    seed(
        "a quorum: a hold is not renewed, nor its parts watched, after a node was reacquired",
        several(
            Without("keeper.move", by="quorum.put_back"),
            Fault("quorum.part_lost", nothing),
            Without("hold.lose", by="quorum.check_gap"),
        ),
        worlds.ALONE_OF_TWO.under(down=1),
        "I8",
    ),
    seed(
        "a quorum: a vote whose fence is the first node's, though a later one was given",
        script("quorum_vote", "if last and not (last < now", "if false and not (last < now"),
        worlds.LATE,
        "I3",
    ),
    seed(
        "a quorum: a timeout does not end the rounds",
        Statement("quorum.rounds", "now >= give_up_at", "False"),
        worlds.IMPATIENT,
        "I6 I13",
        daily="quorum",
    ),
    seed(
        "a quorum: a client that waits for a majority never retries",
        Statement("quorum.rounds", "retry_delay(self.rounds, port.jitter())", "50.0"),
        worlds.TWO.under(late=1),
        "I6",
    ),
    seed(
        "a quorum: a vote without an end",
        script(
            "quorum_vote",
            "call('SET', KEYS[1], holder, 'PX', ARGV[2])",
            "call('SET', KEYS[1], holder)",
        ),
        worlds.ALONE,
        "I10",
    ),
    seed(
        "a quorum: data read before a restart decides which nodes may vote after it",
        Statement("quorum.saw", "self.heard = set()", "pass"),
        worlds.UNLIKE.under(restart=1),
        "I1",
    ),
    seed(
        "a quorum: the longest ttl is overwritten by the last",
        script("membership", "math.max(longest, tonumber(ARGV[2]))", "tonumber(ARGV[2])"),
        worlds.UNLIKE_MET.under(restart=1),
        "I1",
    ),
    seed(
        "a quorum: a claim is given up while its lease is held",
        Fault("quorum.drop_claim", given(claimants=set())),
        worlds.CLAIMED.under(restart=1),
        "I1 I2 I8 L",
    ),
    seed(
        "a quorum: the claim of a lease that was released stays",
        Fault("quorum.drop_claim", lambda *_: 0),
        worlds.RELEASED.under(restart=1),
        "I6",
    ),
)
