"""What the tests of every object do with worlds and with the faults sown into them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from zlib import crc32

import pytest

from tests.flows.seeds.locks import Seed
from tests.flows.worlds import quorums
from tests.flows.worlds.locks import Scenario

# Larger worlds are explored further at night, and by ``python -m tests.flows.deep``. A sown defect
# must be found in half of the schedules that its world gets here: ``finds`` sees to it. Nearly all
# need far fewer.
SCHEDULES, AT_NIGHT = 100, 200
FURTHER = {
    "1 downgrading, 1 writer, 1 expiry": 200,
    "1 in line, 1 foreign, 1 late": 600,
    "1 sets the limit to 3 and to 4, 1 zombie": 200,
    "1 working 0.5 s, 1 until an instant, 1 lost+1 crash": 2000,
    "2 working 1.5 s, acknowledged, 1 unacked+1 failover": 200,
    "3 in line, 1 expiry": 400,
    "cluster, multi: 1 of the last, 1 giving up, first moves, 1 migrate": 300,
    "cluster: 1 twice, 1 freeze+1 cancel": 800,
    "cluster: 1 twice, 1 freeze+1 late": 200,
    "cluster: 2, handed over, 1 freeze": 600,
    "cohort: 2 tasks in line behind 1 working 0.5 s, 1 late+1 cut": 300,
    "cohort: 3 tasks, 1 giving up, 1 turn, 1 other working 1 s, 1 cancel": 200,
    "election, at once, 1 zombie": 2200,
    "election, the leader stood in line, 1 late+1 wake": 400,
    "event: 1 waits twice, 2 set and clear, 1 late": 300,
    "latch: 1 waits, 1 counts, deletes and opens, 1 lost": 200,
    "multi, 1 of both giving up, 1 of the last, 1 pause": 300,
    "multi, 1 of both giving up, 1 of the last, 2 late": 200,
    "multi, 1 of both, 1 of the first, 1 late+1 wake": 300,
    "multi, 2 of the first, 1 tries both, 1 expiry": 600,
    "one of ours beside Java, 1 late": 300,
    "pairs: election, hands_over_in_vain, revoked, 2 late": 200,
    "pairs: revoked beside the first request, in turns, alone, 2 late": 200,
    "quorum: 1 alone, working 0.5 s, 1 late+1 down": 500,
    "quorum: 2 in line, 1 late": 1100,
}
# Worlds that take seconds are slow, also those in which a fault is sown: what is sown is looked for
# by day.
SECONDS = frozenset(
    {
        "1 for both permits, limit 2 to 3 to 4, 1 names 3, 1 lost",
        "2 working 4 s, renewed, 1 pause",
        "3 tasks of one process, 1 other",
        "barrier: 1 of 2 acts for 12 s, 1 down",
        "cluster, multi: 2 of both, first moves, 1 cancel",
        "cluster: 1 alone, 1 unserved",
        "cluster: 1 twice beside 1, 1 freeze",
        "cluster: 1 twice, 1 freeze",
        "cluster: 1 working 4 s, 1 operator, 1 freeze",
        "cluster: 2 working 1 s, acknowledged, 1 unacked+1 gone",
        "cluster: 2 working 1 s, handed over, 1 freeze",
        "election, at once, 1 zombie",
        "election, the leader stood in line, 1 late+1 wake",
        "election, to no candidate, 1 expiry",
        "election, to no candidate, 1 noise",
        "election, to the 2nd of 2, 1 lost",
        "multi, 1 of both giving up, 1 of the last, 1 expiry",
        "quorum: 1 alone, an hour renewed, twice",
        "quorum: 1 alone, working 0.5 s, 1 late+1 down",
        "quorum: 1 alone, working 4 s, renewed, 1 late",
        "quorum: 1 too long for its fixed lease, twice",
        "quorum: 1 working 0.5 s, 1 in line, one of the nodes comes late, 1 restart",
        "quorum: 1 working 1.2 s on two nodes, 1 comes later, 1 restart",
        "quorum: 2 in line, 1 late",
        "quorum: 2 in line, 1 lost",
        "quorum: 2 try twice, a late fence",
        "quorum: 2 working 4 s, clocks adrift",
        "two of ours, twice each, 1 late",
        "two of ours, twice each, 1 pause",
        *(each.under(restart=1).name for each in (quorums.UNLIKE, quorums.CLAIMED)),
    }
)


def as_further(scenario: Scenario) -> int:
    return FURTHER.get(scenario.name, SCHEDULES)


def at_night(scenario: Scenario) -> int:
    return max(AT_NIGHT, as_further(scenario))


@dataclass(frozen=True)
class Explored:
    """Worlds of one subject, each for tasks or for threads, and what must be found in them."""

    daily: Sequence[Scenario] = ()
    nightly: Sequence[Scenario] = ()
    seeds: Sequence[Seed] = ()
    nightly_seeds: Sequence[Seed] = ()
    at_night: Callable[[Scenario], int] = at_night  # schedules of a world that waits for it
    promises: Mapping[str, str] = field(default_factory=dict)  # each with the judge that asks

    def worlds(self) -> Iterator[Scenario]:
        """Yield all, each once: what is explored daily need not be at night."""
        yield from {each.title: each for each in (*self.nightly, *self.daily)}.values()


def worlds_in(*modules: ModuleType) -> list[Scenario]:
    """Return the worlds of modules, also those in their tuples, each once and without a fault."""
    values = [value for module in modules for value in vars(module).values()]
    found = [
        each
        for value in values
        for each in (value if isinstance(value, tuple) else (value,))
        if isinstance(each, Scenario) and not each.budgets
    ]
    return list({each.name: each for each in found}.values())


def judged_by(judge, **promises):
    """Return promises with the place of the function that asks for each, of a class or a module."""
    inside = f"{judge}." if ":" in judge else f"{judge}:"
    return {promise: inside + function for function, promise in promises.items()}


def under(faults, *scenarios):
    """Return each scenario under each of these faults."""
    return [each.under(**{fault: 1}) for each in scenarios for fault in faults]


def both(scenarios):
    """Return each scenario for tasks of a loop, and for threads."""
    return [way for scenario in scenarios for way in (scenario, scenario.threads())]


def by_turns(scenarios):
    """Return each scenario for tasks or for threads, as its name decides.

    For many worlds under many faults: each fault meets both faces, in one world or another.
    """
    ways = (lambda each: each, lambda each: each.threads())
    return [ways[crc32(each.name.encode()) % 2](each) for each in scenarios]


def assert_nothing_breaks(scenario, schedules=None):
    """Explore a world to its end, or so many of its schedules: no clock says how many."""
    schedules = schedules or as_further(scenario)
    report = scenario.explore(schedules=schedules)
    assert report.violation is None, report.story()
    assert report.complete or report.schedules == schedules


def assert_found(seed):
    report = seed.explore()
    assert report.violation is not None, "nothing was found"
    assert report.violation.invariant in seed.breaks, report.story()
    assert 2 * report.schedules <= as_further(seed.scenario), "name it in FURTHER"


def by_day_and_night(explored):
    """Yield the cases of a subject's worlds, marked for the day or for the night: tests/daily.py.

    A world in which a fault is sown is daily, for the face that meets it. Of all others that are
    daily, one face is: threads, if they have it. Under a fault the other face is left to
    ``explore``. What takes ``SECONDS`` is slow.
    """
    sown = {each.scenario.title for each in explored.seeds}
    asked = {each.scenario.title for each in explored.seeds if each.daily}
    daily = {each.title for each in explored.daily}
    faces = {}
    for each in explored.worlds():
        faces.setdefault(each.name, set()).add(each.title)
    for each in explored.worlds():
        first = min(faces[each.name] & sown or faces[each.name], key=is_of_tasks)
        long = each.name in SECONDS and each.title not in asked
        if each.title in sown:
            mark = pytest.mark.slow if long else pytest.mark.daily
        elif each.title in daily and each.title == first:
            mark = pytest.mark.slow if long else ()
        elif each.title == first or not each.budgets:
            mark = pytest.mark.nightly
        else:
            continue
        yield pytest.param(each, marks=mark, id=each.title)


def is_of_tasks(title):
    return title.endswith(", asyncio")


def explores(explored):
    """Return the test that nothing breaks in the worlds of a subject."""

    @pytest.mark.parametrize("scenario", list(by_day_and_night(explored)))
    def test(scenario, request):
        later = any(map(request.node.get_closest_marker, ("slow", "nightly")))
        assert_nothing_breaks(scenario, explored.at_night(scenario) if later else None)

    return test


def finds(explored):
    """Return the test that each fault sown into a subject is found."""
    cases = [
        *(pytest.param(each, id=each.name) for each in explored.seeds),
        *(
            pytest.param(each, marks=pytest.mark.nightly, id=each.name)
            for each in explored.nightly_seeds
        ),
    ]

    @pytest.mark.parametrize("seed", cases)
    def test(seed):
        assert_found(seed)

    return test
