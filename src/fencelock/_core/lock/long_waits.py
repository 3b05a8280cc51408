"""Say in the log that a wait lasts: one line for each lock of a client, as PostgreSQL does.

Rules of this file:

- The first line comes after ``log_waits_after`` seconds of a wait, the next ones ever later. A lock
  for which no wait has lasted so long for a while begins anew.
- It says what is known already: no client is asked. Candidates of an election wait as long as
  there is a leader, so their waits say nothing.
"""

from __future__ import annotations

from math import inf

from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._runtime.log import log
from fencelock._runtime.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# When lines come, in times of the first: after 10 s, 30 s, 2 min, 10 min, an hour, then each hour.
STEPS = (1, 3, 12, 60, 360)


def first_line_at(port: Engine, attempt: Attempt) -> float:
    """Return when a wait is worth a line; ``inf`` if it never is."""
    after = port.lines.log_waits_after
    if after == inf or attempt.terms.options.kind == "election":
        return inf
    return (attempt.arrived_at or port.now()) + after


def tell(port: Engine, attempt: Attempt, now: float, front: Attempt | Hold | None) -> float:
    """Log that the waits for a lock last, if it is time for that; return when to look again.

    ``front`` knows who has the lock.
    """
    lines, key = port.lines, attempt.keys.lock
    after = lines.log_waits_after
    with port.mutex:
        step, due = lines.told.get(key, (0, now))
        if now < due:
            return due
        if now > due + after * STEPS[step]:  # no wait was long since
            step = 0
        later = min(step + 1, len(STEPS) - 1)
        due = now + after * ((STEPS[later] - STEPS[step]) or STEPS[step])
        lines.note_told(key, later, due)
        line = lines.by_key.get(key)
        waiting = {each.continued_by or each for each in (line.waiters if line else ())} | {attempt}
        for tenure in [each for each in lines.crowded if each.terms.keys.lock == key]:
            waiting |= {*tenure.waiting}
        first = min(each.arrived_at or now for each in waiting)
    seen = None if front is None else front.has_it(now)
    held = "a program that is not fencelock"
    if seen:
        from fencelock.status import held_at_least  # noqa: PLC0415 - few waits last

        held = held_at_least(seen.status)
    text = "%d wait for %r, the first for %.0f s; held by %s"
    log.info(text, len(waiting), attempt.keys.name, now - first, held)
    return due
