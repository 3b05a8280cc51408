"""The server's clock, seen from this host: how far off it is, and whether it runs evenly.

Leases end by the server's wall clock. One that jumps ends them early or late; one that is merely
far from this host's does no harm. The server answered TIME between the request and the arrival of
the reply. This file relies on nothing else, so a slow network only makes it less sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencelock.cli.doctor.report import Answer, fail, ok, warn
from fencelock.cli.doctor.server import Sample, Server, literal
from fencelock.cli.output import human

_DISTANCE_SECONDS: Final = 1.0
# Two clocks may drift apart by this rate, and one sample may be this coarse.
_DRIFT: Final = 0.01
_SLACK_SECONDS: Final = 0.001
_SLOW_SECONDS: Final = 0.05
_RECORDS_MAX: Final = 20
_SCANNED: Final = b"1000"


def reachable(server: Server) -> Answer:
    """Ask how fast the server answers."""
    server.sample()
    trips = sorted(each.trip for each in server.samples)
    found = f"answers in {trips[0] * 1000:.2f} ms, {trips[-1] * 1000:.2f} ms at worst"
    if trips[0] > _SLOW_SECONDS:
        return warn(found, "choose a ttl of a hundred round trips or more")
    return ok(found)


def distance(server: Server) -> Answer:
    """Ask how far the clock is from this host's, a while after the first samples."""
    server.sample()
    best = min(server.samples, key=lambda each: each.trip)
    ahead = best.server - best.wall
    way = "ahead of" if ahead > 0 else "behind"
    if abs(ahead) < _DISTANCE_SECONDS:
        return ok(f"the server is {abs(ahead) * 1000:.1f} ms {way} this host")
    return warn(
        f"the server is {human(abs(ahead))} {way} this host",
        "locks do not depend on it, but logs do: run NTP on both",
    )


def jumps(server: Server) -> Answer:
    """Ask whether the clock ran evenly between the samples."""
    moved = jump(server.samples)
    if not moved:
        seconds = server.samples[-1].answered - server.samples[0].asked
        return ok(f"none during {seconds * 1000:.0f} ms")
    return fail(
        f"the server's clock moved by {moved:+.3f} s against this host's during the check",
        "leases end by that clock: let NTP slew it, never step it (chronyd: no makestep)",
    )


def jump(samples: Sequence[Sample]) -> float:
    """Return by how much the server's clock certainly moved against ours; 0 if it may not have.

    Each sample bounds the distance between the clocks. Clocks that run evenly have one distance
    that fits all bounds.
    """
    began, worst = samples[0].asked, 0.0
    for place, one in enumerate(samples):
        for other in samples[:place]:
            slack = _SLACK_SECONDS + _DRIFT * (one.answered - began)
            most = (one.server - one.asked) - (other.server - other.answered)
            least = (one.server - one.answered) - (other.server - other.asked)
            if least > slack:
                worst = max(worst, least, key=abs)
            elif most < -slack:
                worst = max(worst, most, key=abs)
    return worst


def set_back(server: Server) -> Answer:
    """Ask whether grants come from the server's future: then its clock was set back."""
    match = f"{literal(server.session.prefix)}*~record*".encode()
    scanned = server.optional(b"SCAN", b"0", b"MATCH", match, b"COUNT", _SCANNED)
    last = server.samples[-1]
    ahead = 0.0
    for key in scanned[1][:_RECORDS_MAX] if scanned else ():
        fence = (server.optional(b"GET", key) or b"").partition(b" ")[0]
        if fence.isdigit():
            ahead = max(ahead, int(fence) / 1e6 - last.server)
    if ahead <= _SLACK_SECONDS + last.trip:
        return []
    return warn(
        f"a lock was granted {human(ahead)} in the server's future: its clock was set back,"
        " or that of the server before it was ahead",
        "fences go on from the last one while its record exists, ten minutes; run NTP",
    )
