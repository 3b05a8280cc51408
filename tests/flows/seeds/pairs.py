"""Faults sown where a call or a push that began in one state of a tenure takes effect in another.

Each was a defect once: a pair of the table finds it.
"""

from tests.flows.seeds.locks import seed
from tests.flows.sowing import Fault, Statement, nothing
from tests.flows.worlds import object_pairs
from tests.flows.worlds.pairs import ALL, CANCEL, REVOKED_AT_ONCE, worlds_of

# Both the answer and the news of its end are late, so that the news is heard first.
HEARD_BEFORE = next(each for each in REVOKED_AT_ONCE if "alone" in each.name).under(late=2)


def world(one, other, terms):
    """Return the world of two calls on these terms."""
    return next(each for each in worlds_of(one, other) if f", {terms}" in each.name)


def named(name, worlds=ALL):
    """Return the world with this name."""
    return next(each for each in worlds if each.name == name)


def of_object(name):
    """Return the world of another object with this name."""
    return named(name, object_pairs.ALL)


SEEDS = (
    seed(
        "a revocation that is forgotten because its hold has not begun",
        Fault("line.remember_revoked", nothing),
        HEARD_BEFORE,
        "I8",
    ),
    seed(
        "a hold that begins although its client has heard of its revocation",
        Fault("attempt.revoked_before", nothing),
        HEARD_BEFORE,
        "I8",
    ),
    seed(
        "a release that leaves the lease proved while it is sent",
        Statement("keeper.retire", "self.released = True", "pass"),
        world("renew", "release", "strict"),
        "I1",
    ),
    seed(
        "a lease that is kept while its holder renews it",
        Statement("keeper.begin_renewal", "hold.may_grow = True", "pass"),
        world("renew", "release", "kept"),
        "I7",
    ),
    seed(
        "a lease that is kept while a cancelled renewal may still run",
        Statement("keeper.begin_renewal", "hold.may_grow = True", "pass"),
        world("renew", CANCEL, "kept"),
        "I7",
    ),
    seed(
        "a renewal of a lease whose handle is gone",
        Fault("keeper.check_tended", lambda _real, hold: hold.check()),
        world("renew longer", "drop", "in turns"),
        "L",
    ),
    seed(
        "a turn that is longer than its holder asked for",
        Statement("keeper.begin_renewal", "hold.last or ttl > hold.usual", "hold.last"),
        world("renew", "renew longer", "in turns"),
        "L",
    ),
    seed(
        "a revocation that is not for a lease whose handle is gone",
        Statement(
            "keeper.lose",
            "first = hold.lose(reason, since, detail)",
            "first = hold.open and hold.lose(reason, since, detail)",
        ),
        named("pairs: revoked beside drop, in turns, alone"),
        "I8",
    ),
    seed(
        "a lease whose handle is gone, and that its client forgets as its renewal is due",
        Statement("keeper.settle", "hold.dropped and not hold.notified", "False"),
        named("pairs: revoked long after drop"),
        "I8",
    ),
    seed(
        "a loss that is none: another release has given back all",
        Statement(
            "semaphore.release_part",
            "judge(port, hold, reply, repeated=hold.released)",
            "judge(port, hold, reply, repeated=False)",
        ),
        of_object("pairs: permits, gives_one and gives_all").threads(),
        "L",
    ),
    seed(
        "a leadership that goes on though it was resigned during its hand-over",
        Statement("election.resume", "leads = registry.keeps(hold)", "leads = True"),
        of_object("pairs: election, hands_over_in_vain and resigns"),
        "I8",
    ),
    seed(
        "a leadership that goes on though it was revoked during its hand-over",
        Statement("election.resume", "revoked_before(port, hold)", "pass"),
        of_object("pairs: election, hands_over_in_vain, revoked, 2 late"),
        "I8",
    ),
    seed(
        "a leadership that goes on though its client was closed during its hand-over",
        Statement("election.resume", "port.lines.closed", "False"),
        of_object("pairs: election, hands_over_in_vain and closes"),
        "I9",
    ),
)
