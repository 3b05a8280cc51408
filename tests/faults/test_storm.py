"""The storm for twenty seconds; longer by hand: ``python -m tests.faults.storm --seconds 600``."""

import random

import pytest

from tests.faults.storm import run


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_it_holds_when_everything_fails_at_random():
    seed = random.SystemRandom().randrange(10**6)
    verdict, summary = run(20.0, seed)
    assert verdict.overlaps() == [], summary
    assert verdict.fences_that_went_back() == [], summary
    assert verdict.refused_though_proved == [], summary
    assert verdict.unexpected == [], summary
    assert summary["orphans"] == [], summary
    assert set(summary["exit statuses"]) == {0}, summary
    assert summary["grants"] > 50, summary
    assert summary["longest gap"] < 6, summary
