"""What the tests of every object do with scenarios and with sown faults."""


def both(scenarios):
    """Return each scenario for tasks of a loop, and for threads."""
    return [way for scenario in scenarios for way in (scenario, scenario.threads())]


def assert_nothing_breaks(scenario, *, seconds=150):
    report = scenario.explore(
        seconds=seconds
    )  # a tenth of that on a machine with nothing else to do
    assert report.violation is None, report.story()
    assert report.complete


def assert_found(seed):
    report = seed.explore()
    assert report.violation is not None, "nothing was found"
    assert report.violation.invariant in seed.breaks, report.story()
