"""What the tests of every object do with scenarios and with sown faults."""

from zlib import crc32

# Larger worlds are explored further by ``python -m tests.flows.deep``. No sown defect needs more
# schedules than its world gets here: ``assert_found`` sees to it.
SCHEDULES = 500
FURTHER = {
    "3 in line, 1 expiry": 1000,
    "1 working 0.5 s, 1 until an instant, 1 lost+1 crash": 1500,
    "1 downgrading, 1 writer, 1 expiry": 1500,
    "election, at once, 1 zombie": 2000,
    "quorum: 1 alone, working 0.5 s, 1 late+1 down": 1000,
    "quorum: 1 alone, working 4 s, renewed, 1 late": 1000,
    "quorum: 2 in line, 1 late": 1000,
}


def both(scenarios):
    """Return each scenario for tasks of a loop, and for threads."""
    return [way for scenario in scenarios for way in (scenario, scenario.threads())]


def by_turns(scenarios):
    """Return each scenario for tasks or for threads, as its name decides.

    For many worlds under many faults: each fault meets both faces, in one world or another.
    """
    ways = (lambda each: each, lambda each: each.threads())
    return [ways[crc32(each.name.encode()) % 2](each) for each in scenarios]


def assert_nothing_breaks(scenario, *, schedules=None):
    """Explore a world to its end, or so many of its schedules: no clock says how many."""
    schedules = schedules or FURTHER.get(scenario.name, SCHEDULES)
    report = scenario.explore(schedules=schedules)
    assert report.violation is None, report.story()
    assert report.complete or report.schedules == schedules


def assert_found(seed):
    report = seed.explore()
    assert report.violation is not None, "nothing was found"
    assert report.violation.invariant in seed.breaks, report.story()
    assert report.schedules <= FURTHER.get(seed.scenario.name, SCHEDULES), "name it in FURTHER"
