"""Faults sown into ``multi`` over the slots of a Cluster."""

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Statement, Without
from tests.flows.worlds import cluster_multis as worlds

SEEDS = (
    seed(
        "a multi over two slots that gives up and keeps its first lock",
        Without("joint.drop", by="joint.in_order"),
        worlds.GIVING_UP[0],
        "I9 I11",
    ),
    seed(
        "a cancelled multi over two slots that keeps its first lock",
        Without("engine.release_later", by="joint.undo"),
        worlds.TWO[0].under(cancel=1),
        "I6 I9",
    ),
    seed(
        "a part whose release is redirected and not sent on",
        Statement(
            "cluster.followed",
            "return await self.run(request, key, until, waiter if own else None)",
            "raise NoReply('it has moved', sent=False)",
        ),
        worlds.ALONE[0].under(move=1),
        "I9 I12",
    ),
    seed(
        "a part whose release is refused while its slot moves",
        Without("wire.passes", by="joint.ask"),
        worlds.ALONE[0].under(migrate=1),
        "I9 I12",
    ),
    seed(
        "a release that is refused for now and not sent again",
        Without("wire.passes", by="engine.settled"),
        worlds.GIVING_UP[0].under(migrate=1),
        "I9",
    ),
)
