"""Faults sown into elections."""

from tests.flows.seeds.locks import as_if_asked_once, seed
from tests.flows.sowing import Fault, Statement, Without, script
from tests.flows.worlds import elections

SEEDS = (
    seed(
        "the candidate stays where it was in line",
        script(
            "election_hand_over",
            "call('ZADD', KEYS[3], text(tonumber(line[2]) - 1), entry)",
            "",
        ),
        elections.HAND_OVER,
        "I5",
    ),
    seed(
        "the candidate is not known to be alive",
        script("election_hand_over", "remember(1, now, client_channel)", ""),
        elections.LATE,
        "I5 I7",
    ),
    seed(
        "a client that does not lead hands over",
        script("election_hand_over", "call('GET', KEYS[1]) ~= holder", "false"),
        elections.RIVAL.under(late=1),
        "I1",
    ),
    seed(
        "a leadership that was kept is not renewed",
        Without("wire.track", by="election.resume"),
        elections.TO_NOBODY,
        "I8",
        daily="election",
    ),
    seed(
        "a leadership that was kept is forgotten",
        Without("election.resume", by="election.offer"),
        elections.TO_NOBODY,
        "I9",
    ),
    seed(
        "a leader goes on while it hands over",
        Without("keeper.retire", by="election.offer"),
        elections.HAND_OVER,
        "I1 I8",
    ),
    seed(
        "a candidate whose connection was lost is said to be away",
        script("election_hand_over", "if alive and ARGV[4] ~= '1' then", "if false then"),
        elections.TO_ONLY.under(cut=1),
        "I12",
        daily="election",
    ),
    seed(
        "a candidate that is silent is not waited for",
        Statement(
            "election.hand_over",
            "disturbed or asked.tries > 0 or reply[1] == SILENT",
            "disturbed or asked.tries > 0",
        ),
        elections.TO_ONLY.under(cut=1),
        "I12",
    ),
    seed(
        "a repeated hand-over is refused",
        Fault("election.judge", as_if_asked_once),
        elections.HAND_OVER.under(lost=1),
        "I4",
    ),
    seed(
        "a hand-over without a reply keeps the leadership",
        Without("engine.release_later", by="election.offer"),
        elections.ALONE.under(lost=1, cancel=1),
        "I9",
    ),
    seed(
        "a hand-over that was answered with no gives the leadership away, late",
        script("election_hand_over", "if call('ZSCORE', KEYS[4], kept) then", "if false then"),
        elections.AT_ONCE.under(zombie=1),
        "I1 I8",
    ),
    seed(
        "a campaign whose request was repeated may still arrive after the hand-over",
        Without("attempt.undo_owed", by="election.offer"),
        elections.LINED.under(late=1, wake=1),
        "I9",
    ),
    seed(
        "a request that may still come, whose undo leaves its place in line",
        Statement(
            "attempt.undo_owed",
            "self.terms.abandon(self, stray.channel)",
            "self.terms.abandon(self)",
        ),
        elections.LINED.under(late=1, wake=1).threads(),
        "I9",
    ),
    seed(
        "a watcher relies on messages alone",
        Statement("election.next_change", "asked_at + HEARTBEAT_SECONDS", "asked_at + 100"),
        elections.LEADING_ON.under(wake=1),
        "I6",
    ),
)
