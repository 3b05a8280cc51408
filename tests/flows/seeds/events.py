"""Faults sown into what hooks are told of requests and grants."""

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, Without
from tests.flows.worlds import locks as worlds
from tests.flows.worlds import multis

NIGHTLY_SEEDS = (
    seed(
        "a lease whose end is reported twice",
        Statement("events.end_hold", "hold.reported.pop()", "hold.reported[0]"),
        worlds.CHECKED_FIXED.reported(),
        "E",
    ),
    seed(
        "a timeout that is not reported",
        Without("events.end", by="attempt.tell"),
        worlds.TWO_IMPATIENT.reported(),
        "E",
    ),
    seed(
        "a cancelled wait that is not reported",
        Without("events.failed", by="engine.failed"),
        worlds.TWO.under(cancel=1).reported(),
        "E",
    ),
    seed(
        "a request that ends twice",
        Fault("events.ends", lambda real, self: real(self) or True),
        multis.IMPATIENT.reported(),
        "E",
    ),
    seed(
        "a release that is not reported",
        Without("events.end_hold", by="engine.finish"),
        worlds.TWO.reported(),
        "E",
    ),
    seed(
        "a loss that is reported as a release",
        Statement("events.end_hold", "reason or hold.loss is not None", "reason"),
        worlds.CHECKED_FIXED.reported(),
        "E",
    ),
    seed(
        "a loss that is never reported",
        Statement("hold.tell", "events.end_hold(self)", "self.reported = []"),
        worlds.CHECKED_FIXED.reported(),
        "E",
    ),
    seed(
        "parts of a multi that are dropped without a word",
        Without("joint.end", by="joint.drop"),
        multis.BESIDE_LAST_IMPATIENT.reported(),
        "E",
    ),
)
