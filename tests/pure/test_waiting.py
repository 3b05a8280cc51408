"""_core/lock/waiting.py: how long a waiter may sleep before somebody looks (I6)."""

from fencelock._core.deadlines import FOREIGN_SECONDS, HEARTBEAT_SECONDS, LIVENESS_TIMEOUT_SECONDS
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Grant
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import (
    ENTRIES_PER_HEARTBEAT,
    LOCKS_PER_HEARTBEAT,
    PAUSE_SECONDS,
    RECALLS_IN_VAIN,
    Line,
    Lines,
    Recalls,
)
from fencelock.options import Cohort, LeaseOptions
from fencelock.scripts import HEARTBEAT

NOW = 1000.0


def waiter(name: str = "a", number: int = 0) -> Hold:
    who = f"w{number}".encode()
    terms = Terms(
        keys=LockKeys("p:", name),
        options=LeaseOptions(ttl=30.0, renew=True, cohort=Cohort()),
        client_channel=b"h",
        ttl=30.0,
    )
    return Hold(terms, who)


def test_clients_that_came_together_do_not_go_on_looking_together():
    line, looks = Line(), set()
    for jitter in (0.0, 0.5, 0.99):
        line.postpone(NOW, 60_000, 0, foreign=False, jitter=jitter)
        looks.add(line.heartbeat_at)
    assert len(looks) == 3
    assert NOW + 0.75 * HEARTBEAT_SECONDS < min(looks) < max(looks) == NOW + HEARTBEAT_SECONDS


def test_after_a_pause_recalls_count_afresh():
    recalls = Recalls()
    for _ in range(RECALLS_IN_VAIN):
        recalls.recalled("a", 100.0)
    over = 100.0 + PAUSE_SECONDS
    assert [recalls.paused("a", at) for at in (100.0, over - 1, over)] == [True, True, False]
    recalls.recalled("a", over)
    assert not recalls.paused("a", over)


def test_those_further_back_look_later():
    looks = []
    for position in (0, 1, 10, 1000):
        line = Line()
        line.postpone(NOW, 100, position, foreign=False)
        looks.append(line.heartbeat_at)
    assert looks == sorted(looks)
    assert looks[0] < looks[1] < looks[2]
    assert looks[-1] <= NOW + HEARTBEAT_SECONDS


def test_a_line_that_always_moves_proves_life_all_the_same():
    """Whoever waits long in it would be taken for dead, and lose its place."""
    lines, now, first_look = Lines(), NOW, None
    crowd = [waiter(number=number) for number in range(400)]
    for each in crowd:
        each.asked_at = NOW
        lines.join(each).postpone(NOW, 60_000, 1, foreign=False)
    for each in crowd:
        now += 0.05
        each.grant = Grant(1, now + 30, 30.0)
        lines.leave(each, now)
        if lines.due(now, HEARTBEAT):
            first_look = first_look or now
    assert first_look is not None
    assert (
        2 * HEARTBEAT_SECONDS - 1 < first_look - NOW < LIVENESS_TIMEOUT_SECONDS - HEARTBEAT_SECONDS
    )


def test_one_look_serves_all_lines_that_are_due():
    lines = Lines()
    for name in "abc":
        for number in range(100):
            lines.join(waiter(name, number)).heartbeat_at = NOW + (60 if name == "c" else 0)
    due = lines.due(NOW, HEARTBEAT)
    assert [len(waiters) for _, waiters in due] == [ENTRIES_PER_HEARTBEAT] * 2
    assert lines.due(NOW, HEARTBEAT) == [], "claimed: nobody else looks at the same time"


def test_behind_many_foreign_holders_no_lock_is_looked_at_more_often_and_none_less():
    """The first hundred lines were always due, and the others looked again and again in vain."""
    crowd = 5 * LOCKS_PER_HEARTBEAT // 2
    lines, looks, asked = Lines(), 0, dict.fromkeys(range(crowd), 0)
    numbers = {waiter(f"{number}"): number for number in range(crowd)}
    for each in numbers:
        lines.join(each).postpone(NOW, -1, 0, foreign=True)
    lines.foreign = crowd
    for step in range(1000):
        now = NOW + step / 500  # two seconds
        for each in numbers:
            line = lines.join(each)
            while now >= line.bound(each):
                looks += 1
                for found, waiters in lines.due(now, HEARTBEAT, each):
                    asked[numbers[waiters[0]]] += 1
                    found.postpone(now, -1, 0, foreign=True, crowd=lines.foreign)
    often = 2 / (FOREIGN_SECONDS * crowd / LOCKS_PER_HEARTBEAT)
    assert 0.7 * often <= min(asked.values()) <= max(asked.values()) <= often * 4 / 3 + 2
    assert looks <= 2 / FOREIGN_SECONDS * 1.5


def test_a_look_asks_about_the_lock_of_the_waiter_that_looks():
    lines = Lines()
    crowd = [waiter(f"{number}") for number in range(2 * LOCKS_PER_HEARTBEAT)]
    for number, each in enumerate(crowd):
        lines.join(each).heartbeat_at = NOW - 1 + number / 1000
    due = lines.due(NOW, HEARTBEAT, crowd[-1])
    assert len(due) == LOCKS_PER_HEARTBEAT
    assert due[0][1] == [crowd[-1]]
    assert due[1][1] == [crowd[0]]
