"""What the tests of every object do with scenarios and with sown faults."""

from zlib import crc32

# Larger worlds are explored further by ``python -m tests.flows.deep``: no sown defect needed more
# schedules (docs/explanation/mutations.md), but one of elections (1,656).
SCHEDULES = 1000


def both(scenarios):
    """Return each scenario for tasks of a loop, and for threads."""
    return [way for scenario in scenarios for way in (scenario, scenario.threads())]


def by_turns(scenarios):
    """Return each scenario for tasks or for threads, as its name decides.

    For many worlds under many faults: each fault meets both faces, in one world or another.
    """
    ways = (lambda each: each, lambda each: each.threads())
    return [ways[crc32(each.name.encode()) % 2](each) for each in scenarios]


def assert_nothing_breaks(scenario, *, schedules=SCHEDULES):
    """Explore a world to its end, or so many of its schedules: no clock says how many."""
    report = scenario.explore(schedules=schedules)
    assert report.violation is None, report.story()
    assert report.complete or report.schedules == schedules


def assert_found(seed):
    report = seed.explore()
    assert report.violation is not None, "nothing was found"
    assert report.violation.invariant in seed.breaks, report.story()
