"""The server's clock, seen from this host: how far off it is, and whether it runs evenly.

Leases end by the server's wall clock. One that jumps ends them early or late; one that is merely
far from this host's does no harm. The server answered TIME between the request and the arrival of
the reply. This file relies on nothing else, so a slow network only makes it less sure.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from fencelock._runtime.clock import now
from fencelock.cli.doctor.probe import Probe
from fencelock.cli.doctor.report import FAIL, OK, WARN, Finding
from fencelock.cli.output import human

_DISTANCE_SECONDS: Final = 1.0
# Two clocks may drift apart by this rate, and one sample may be this coarse.
_DRIFT: Final = 0.01
_SLACK_SECONDS: Final = 0.001
_SLOW_SECONDS: Final = 0.05
_PAUSE_SECONDS: Final = 0.01
_MICROS: Final = 1e6
_RECORDS_MAX: Final = 20
_SCANNED: Final = b"1000"


class _Sample(NamedTuple):
    """When TIME was sent and answered, by our monotonic clock and by our wall clock."""

    asked: float
    answered: float
    wall: float  # half way
    server: float  # its wall clock


class ClockCheck:
    """Samples of the server's clock, and what they say of it."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._samples: list[_Sample] = []

    def sample(self, times: int = 1) -> None:
        """Ask the server what time it is."""
        for turn in range(times):
            if turn:
                time.sleep(_PAUSE_SECONDS)  # samples that span some time
            asked, wall = now(), time.time()
            seconds, micros = self._probe.command(b"TIME")
            answered = now()
            middle = wall + (answered - asked) / 2
            server = int(seconds) + int(micros) / _MICROS
            self._samples.append(_Sample(asked, answered, middle, server))

    def reach(self) -> Finding:
        """Return how fast the server answers."""
        trips = sorted(each.answered - each.asked for each in self._samples)
        found = f"answers in {trips[0] * 1000:.2f} ms, {trips[-1] * 1000:.2f} ms at worst"
        if trips[0] > _SLOW_SECONDS:
            change = "choose a ttl of a hundred round trips or more"
            return Finding(WARN, "reachable", found, change)
        return Finding(OK, "reachable", found)

    def findings(self) -> Iterator[Finding]:
        """Return how far off the clock is, and whether it ran evenly between the samples."""
        yield self._distance()
        jumped = self.jump()
        if jumped:
            found = (
                f"the server's clock moved by {jumped:+.3f} s against this host's during the check"
            )
            change = (
                "leases end by that clock: let NTP slew it, never step it (chronyd: no makestep)"
            )
            yield Finding(FAIL, "clock jumps", found, change)
        else:
            seconds = self._samples[-1].answered - self._samples[0].asked
            yield Finding(OK, "clock jumps", f"none during {seconds * 1000:.0f} ms")

    def _distance(self) -> Finding:
        best = min(self._samples, key=lambda each: each.answered - each.asked)
        distance = best.server - best.wall
        way = "ahead of" if distance > 0 else "behind"
        if abs(distance) < _DISTANCE_SECONDS:
            found = f"the server is {abs(distance) * 1000:.1f} ms {way} this host"
            return Finding(OK, "clock", found)
        found = f"the server is {human(abs(distance))} {way} this host"
        return Finding(
            WARN, "clock", found, "locks do not depend on it, but logs do: run NTP on both"
        )

    def jump(self) -> float:
        """Return by how much the server's clock certainly moved against ours; 0 if it may not have.

        Each sample bounds the distance between the clocks. Clocks that run evenly have one distance
        that fits all bounds.
        """
        began, worst = self._samples[0].asked, 0.0
        for place, one in enumerate(self._samples):
            for other in self._samples[:place]:
                slack = _SLACK_SECONDS + _DRIFT * (one.answered - began)
                moved = (one.server - one.asked) - (other.server - other.answered)
                least = (one.server - one.answered) - (other.server - other.asked)
                if least > slack:
                    worst = max(worst, least, key=abs)
                elif moved < -slack:
                    worst = max(worst, moved, key=abs)
        return worst

    def backwards(self, prefix: str) -> Finding | None:
        """Return a finding if grants come from the server's future: its clock was set back."""
        pattern = "".join(f"\\{char}" if char in "*?[]\\" else char for char in prefix)
        match = f"{pattern}*~record*".encode()
        scanned = self._probe.optional(b"SCAN", b"0", b"MATCH", match, b"COUNT", _SCANNED)
        if scanned is None:
            return None
        current = self._samples[-1].server * _MICROS
        records = [self._probe.optional(b"GET", key) for key in scanned[1][:_RECORDS_MAX]]
        ahead = max((_fence(record) - current for record in records), default=0.0) / _MICROS
        if ahead <= _SLACK_SECONDS + self._samples[-1].answered - self._samples[-1].asked:
            return None
        return Finding(
            WARN,
            "clock set back",
            f"a lock was granted {human(ahead)} in the server's future: its clock was set back,"
            " or that of the server before it was ahead",
            "fences go on from the last one while its record exists, ten minutes; run NTP",
        )


def _fence(record: bytes | None) -> int:
    first = (record or b"").partition(b" ")[0]
    return int(first) if first.isdigit() else 0
