"""Faults sown into clients that give back what they hold when they are closed."""

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, Without
from tests.flows.worlds import shutdowns as worlds

SEEDS = (
    seed(
        "a lease is given back before its holder is notified",
        Without("keeper.lose", by="engine.close_hold", answer=True),
        worlds.BESIDE,
        "I8",
    ),
    seed(
        "what is held is forgotten, and not given back",
        Fault("engine.hand_back", lambda *_: []),
        worlds.ALONE,
        "I9",
    ),
    seed(
        "it goes on after its time",
        Statement("engine.hand_back", "self.now() >= until", "False"),
        worlds.ALONE.under(silent=3),
        "I13 I6",
    ),
)
