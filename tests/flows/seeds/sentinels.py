"""Faults sown into how a client finds its master behind Sentinels."""

from fencelock._topology.sentinel import FRESH_SECONDS, SUSPECT_SECONDS
from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, always
from tests.flows.worlds import sentinels as worlds

BEST = "max(given, key=lambda reply: (reply.epoch, votes[reply.epoch, *reply.where]))"

SEEDS = (
    seed(
        "an answer that is believed for want of time",
        Fault("master.trusts", always),
        worlds.HASTY.heard(slow=worlds.SLOW).under(freeze=1),
        "I1",
    ),
    seed(
        "an answer that is believed for a round of a second and a half ago",
        Fault("master.trusts", lambda real, self, since: real(self, since - FRESH_SECONDS - 0.4)),
        worlds.NO_TIME.under(freeze=1),
        "I1",
    ),
    seed(
        "an answer that waited in the master for long",
        Fault(
            "master.proof_since", lambda _real, _asked, answered, fresh_for: answered - fresh_for
        ),
        worlds.ORDERED_AWAY.under(freeze=1),
        "I1",
    ),
    seed(
        "an old master's answers that count unproved",
        Statement("master.prove", "raise NoReply(text, sent=True)", "return"),
        worlds.CUT_AGAIN.under(freeze=1),
        "I1",
    ),
    seed(
        "a round that began before the answer",
        Fault("master.proves", lambda _real, self, *_: self._state.has_majority(self.outcomes)),
        worlds.DURING.under(freeze=1),
        "I1",
    ),
    seed(
        "the lowest epoch wins",
        Statement("master.learn", BEST, BEST.replace("max", "min")),
        worlds.CUT_AGAIN.heard(cut=worlds.FIRST_CUT).under(freeze=1),
        "I1",
    ),
    seed(
        "one Sentinel names the master against all others",
        Statement("master.learn", "votes[reply.epoch, *reply.where]", "0"),
        worlds.CUT_AGAIN.heard(stubborn=worlds.ONE_STUBBORN).under(freeze=1),
        "I1",
    ),
    seed(
        "Sentinels that were set up anew are never believed",
        Statement("master.set_up_anew", "began - self._confirmed_at > FORGET_SECONDS", "False"),
        worlds.GONE.under(freeze=1),
        "I6",
    ),
    seed(
        "a push that is delivered before its proof",
        Statement("master.take", "if not self._held and self.counts(heard_at):", "if True:"),
        worlds.CUT_FIXED.under(freeze=1),
        "I1",
    ),
    seed(
        "a new master that begins no generation",
        Statement("master.learn", "self.generation += 1", "self.generation += known is None"),
        worlds.CUT_AGAIN.under(freeze=1),
        "I1",
    ),
    seed(
        "a Sentinel's suspicion that is not heeded",
        Fault("master.fresh_for", lambda *_: FRESH_SECONDS),
        worlds.CUT_AGAIN.under(freeze=1),
        "I1",
    ),
    seed(
        "a round that finds a failover under way after the proof has begun",
        Statement(
            "master.prove", "since = proof_since(asked_at, answered_at, state.fresh_for)", "pass"
        ),
        worlds.DIALLING.under(freeze=1).threads(),
        "I1",
    ),
    seed(
        "a failover under way that is heeded like a suspicion",
        Fault("master.fresh_for", lambda real, outcomes: max(real(outcomes), SUSPECT_SECONDS)),
        worlds.JUST_BEFORE.under(freeze=1),
        "I1",
    ),
)
