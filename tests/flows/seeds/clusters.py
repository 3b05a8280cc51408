"""Faults sown into requests in a Cluster."""

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, Without, always, never, nothing, script, several
from tests.flows.worlds import clusters as worlds


def all_but(code):
    """Return what takes an error of this code for an answer, and not for "not now"."""
    return lambda real, error: error.code != code and real(error)


SEEDS = (
    seed(
        "a node that says CLUSTERDOWN ends the call",
        Fault("wire.passes", all_but("CLUSTERDOWN")),
        worlds.PATIENT.under(unserved=1),
        "I6",
    ),
    seed(
        "a node that says TRYAGAIN ends the call",
        Fault("wire.passes", all_but("TRYAGAIN")),
        worlds.ALONE.under(migrate=1),
        "I12",
    ),
    seed(
        "a map that is not read again when a node says CLUSTERDOWN",
        Fault(
            "cluster.redirect",
            lambda real, self, error: None if error.code == "CLUSTERDOWN" else real(self, error),
        ),
        worlds.PATIENT.under(isolated=1),
        "I6",
    ),
    seed(
        "a grant that counts though no replica acknowledged it",
        Statement("engine.enough_replicas", "count < wanted or port.now() >= deadline", "False"),
        worlds.COUNTED_WORKING.under(unacked=1, gone=1),
        "I1 I2",
    ),
    seed(
        "a grant in a Cluster that is not counted",
        Fault("attempt.counts", never),
        worlds.COUNTED_FIXED.under(gone=1),
        "I1",
    ),
    seed(
        "a grant that is handed over in a Cluster and not counted",
        Fault("attempt.pushed_counts", lambda _real, _self, grant: grant),
        worlds.COUNTED_LINE.under(gone=1),
        "I1",
    ),
    seed(
        "a renewal in a Cluster that is not counted",
        Statement("keeper.renew_batches", "port.replicas is not None", "False"),
        worlds.COUNTED_LONG.under(gone=1),
        "I1 I2",
    ),
    seed(
        "a request that is sent on without ASKING",
        Statement("cluster.run", "step is not None and step.asking", "False"),
        worlds.LONG.under(migrate=1),
        "L",
    ),
    seed(
        "a waiter that stays where its channel ended",
        Without("cluster.end_channel", by="cluster.taken"),
        worlds.TWO_WORKING.under(move=1),
        "I6",
    ),
    seed(
        "a redirect that is an error",
        Without("cluster.redirect", by="cluster.step_after"),
        worlds.TWO_WORKING.under(move=1),
        "I12",
    ),
    seed(
        "a redirected renewal that is not sent on",
        Fault("cluster.followed", lambda _real, _self, _call, answer, *_: answer),
        worlds.LONG.under(move=1),
        "L",
    ),
    seed(
        "an answer of a master that was replaced and woke up",
        Fault(
            "cluster.counts", lambda _real, self, node, asked_at: self.note(node, asked_at) or True
        ),
        worlds.AGAIN.under(freeze=1),
        "I1 I4 I9",
    ),
    seed(
        "a grant that such a master pushed",
        Fault("cluster.disbelieves", never),
        worlds.HANDED_OVER.under(freeze=1),
        "I1 I4 I9",
    ),
    seed(
        "a grant that is believed of any node",
        Fault("cluster.is_of_master", always),
        worlds.HEARD_ELSEWHERE.threads().under(freeze=1),
        "I1",
    ),
    seed(
        "a grant that names no node, and is believed",
        several(
            script("release", "'@' .. node .. ' ' .. message or message", "message"),
            Fault("cluster.is_of_master", lambda real, *args: not args[-1] or real(*args)),
        ),
        worlds.HEARD_ELSEWHERE.threads().under(freeze=1),
        "I1",
    ),
    seed(
        "a revocation that is believed of any node",
        Statement("cluster.doubts_revocation", "return True", "return False"),
        worlds.REVOKED_ELSEWHERE.under(freeze=1),
        "L",
    ),
    seed(
        "a map that is not read again when a node is silent",
        Fault("cluster.invalidate", nothing),
        worlds.TWO_WORKING.under(gone=1),
        "I6",
    ),
    seed(
        "a node without the time to answer that is taken for silent",
        Fault("cluster.in_time", nothing),
        worlds.TWICE.under(freeze=1, late=1),
        "I4 I9",
    ),
    seed(
        "an undo that a master ended which was replaced",
        Fault("cluster.settles", always),
        worlds.TWICE.under(freeze=1, cancel=1),
        "I9",
    ),
)
