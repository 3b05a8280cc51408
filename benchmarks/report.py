"""What a case found out, as a row for people and as an object for programs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contestants import ALL_OURS, OURS
from measure import Samples


@dataclass
class Result:
    """One row. ``absent`` tells of each peer that did not take part why not."""

    case: str
    unit: str
    ours: float
    floor: float | None
    peers: dict[str, float]
    ratio_to_floor: float | None
    ratio_to_best_peer: float | None
    target: str
    met: bool | None  # None: reported only
    best_peer: str | None = None
    peer_ratios: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measure:
    """How the samples of a case are shown: costs are seconds, scaled, or rates, their inverse."""

    unit: str
    scale: float = 1.0
    rate: bool = False

    def value(self, cost: float) -> float:
        return self.scale / cost if self.rate else self.scale * cost

    def ratio(self, costs: float) -> float:
        return 1 / costs if self.rate else costs


TIMES = "\N{MULTIPLICATION SIGN} "
MICROSECONDS = Measure("µs", 1e6)
MILLISECONDS = Measure("ms", 1e3)


def result(
    case: str,
    measure: Measure,
    samples: Samples,
    floor: str,
    *,
    absent: Mapping[str, str],
    ours: str = OURS,
) -> Result:
    """Make a row of samples about one contestant of ours; it has no target yet."""
    peers = [name for name in samples.costs if name not in {*ALL_OURS, floor}]
    ratios = {name: measure.ratio(samples.ratio_to_floor(name)) for name in peers}
    best = (max if measure.rate else min)(peers, key=ratios.__getitem__, default=None)
    return Result(
        case=case,
        unit=measure.unit,
        ours=measure.value(samples.median(ours)),
        floor=measure.value(samples.median(floor)),
        peers={name: measure.value(samples.median(name)) for name in peers},
        ratio_to_floor=measure.ratio(samples.ratio_to_floor(ours)),
        ratio_to_best_peer=measure.ratio(samples.ratio(ours, best)) if best else None,
        target="none",
        met=None,
        best_peer=best,
        peer_ratios=ratios,
        absent=dict(absent),
    )


def one_of(case: str, measure: Measure, samples: Samples, name: str, floor: str) -> Result:
    """Make a row of one thing of ours, without peers and without a target."""
    return Result(
        case=case,
        unit=measure.unit,
        ours=measure.value(samples.median(name)),
        floor=measure.value(samples.median(floor)),
        peers={},
        ratio_to_floor=measure.ratio(samples.ratio_to_floor(name)),
        ratio_to_best_peer=None,
        target="none",
        met=None,
    )


def judged(row: Result, at_most: float, floor: str = "floor") -> Result:
    """Return the row with that target, a ratio to its floor."""
    row.target = f"<= {at_most}x {floor}"
    row.met = bool(row.ratio_to_floor and row.ratio_to_floor <= at_most)
    return row


# --- for people -----------------------------------------------------------------------------------


def show(row: Result) -> str:
    met = {True: "met", False: "MISSED", None: "reported"}[row.met]
    lines = [f"{row.case}  [{row.unit}]  target {row.target}: {met}"]
    lines.append(f"    {'fencelock':<20}{number(row.ours):>12}  {times(row.ratio_to_floor)} floor")
    if row.floor is not None:
        lines.append(f"    {'floor':<20}{number(row.floor):>12}")
    for name, value in row.peers.items():
        ratio = f"{times(row.peer_ratios[name])} floor" if name in row.peer_ratios else ""
        best = f"  best peer; ours is {times(row.ratio_to_best_peer)} of it"
        told = best if name == row.best_peer else ""
        lines.append(f"    {name:<20}{number(value):>12}  {ratio}{told}")
    lines += [f"    {name:<20}{'-':>12}  {why}" for name, why in row.absent.items()]
    lines += [f"    {key}: {value}" for key, value in row.details.items() if key != "by_waiters"]
    return "\n".join(lines)


def number(value: float) -> str:
    if math.isinf(value):
        return "never"  # of fairness: somebody had no turn at all
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def times(ratio: float | None) -> str:
    return "-" if ratio is None or not 0 < ratio < math.inf else f"{ratio:.2f}x"


def summary(rows: list[Result]) -> str:
    """Return the table of all cases, as docs/explanation/performance.md has it."""
    heads = ("case", "fencelock", "floor", f"{TIMES}floor", "best peer", "ours / best peer")
    table = [(*heads, "target"), *[("---",) * 7], *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in table)


def _cells(row: Result) -> tuple[str, ...]:
    in_floors, in_peers = (
        times(each).rstrip("x-") for each in (row.ratio_to_floor, row.ratio_to_best_peer)
    )
    told = [f"{value} {TIMES}{key[2:]}" for key, value in row.details.items() if key[:2] == "x "]
    if row.met is not None:
        told.append(typeset(row.target) + (": met" if row.met else ": missed"))
    return (
        f"`{row.case}`",
        f"{number(row.ours)} {row.unit}",
        "" if row.floor is None else number(row.floor),
        in_floors,
        _best(row),
        in_peers,
        "; ".join(told),
    )


def typeset(target: str) -> str:
    """Return a target as people write it."""
    return re.sub(r"(?<=\d)x ", f" {TIMES}", target.replace("<=", "≤").replace(">=", "≥"))


def _best(row: Result) -> str:
    """Return the best peer with its value, and redis-py's beside it."""
    if row.best_peer is None:
        return ""
    told = f"{row.best_peer} {number(row.peers[row.best_peer])}"
    if row.best_peer != "redis-py" and "redis-py" in row.peers:
        told += f" (redis-py {number(row.peers['redis-py'])})"
    return told


# --- for programs ---------------------------------------------------------------------------------


def write_json(file: Path, rows: list[Result], about: Mapping[str, Any]) -> None:
    """Write all rows, with what they were measured on; what is infinite is null in JSON."""
    told = {"about": dict(about), "cases": [finite(vars(row)) for row in rows]}
    file.write_text(json.dumps(told, indent=2, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): finite(each) for key, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
