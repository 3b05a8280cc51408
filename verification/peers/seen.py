"""What one run of one fault showed, and what several runs show together."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

FOR_EVER = float("inf")
NEVER = float("inf")
CAP_SECONDS = 8.0  # how long a call that should have returned is waited for


@dataclass
class Seen:
    """One run. Seconds are None where there is nothing to tell."""

    violation: bool = False  # two may believe that they hold, or somebody else's lock was released
    orphan: float = 0.0  # for how long what was left blocks others
    hang: float = 0.0  # how long a call took that should have returned before
    wrong: bool = False  # a wrong answer
    delay: float | None = None  # until the next one held the lock
    learns: str = ""  # how the holder learned that it had lost the lock
    remark: str = ""  # an error that was raised, or another thing worth knowing
    count: tuple[int, int] = (0, 0)  # orphans and instants, where a run tries many instants


def record(runs: list[Seen]) -> dict[str, Any]:
    """Return it as JSON takes it: what is infinite is a text, that `float` reads."""
    return {"runs": [{key: _plain(value) for key, value in asdict(each).items()} for each in runs]}


def _plain(value: Any) -> Any:
    return str(value) if value == FOR_EVER else value


def cell(told: dict[str, Any]) -> str:
    """Return one cell of the table."""
    if "absent" in told:
        return "n/a"
    runs = told["runs"]
    parts = [*_counts(runs), *_delay(runs), *_remarks(runs)]
    return ", ".join(parts) or "0"


def faults(told: dict[str, Any]) -> int:
    """Return in how many runs anything was wrong."""
    return sum(
        bool(run["violation"] or run["orphan"] or run["hang"] or run["wrong"])
        for run in told.get("runs", [])
    )


def learned(told: dict[str, Any]) -> str:
    """Return how the holder learned, most frequent first."""
    counts = Counter(run["learns"] for run in told.get("runs", []) if run["learns"])
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{how} ({count})" for how, count in counts.most_common())


def seconds(value: float) -> str:
    return "for ever" if value == FOR_EVER else f"{value:.1f} s"


def _long(value: float) -> str:
    """Return a hang's length; of those that never ended, how long they were waited for."""
    return f"> {CAP_SECONDS:.0f} s" if value >= CAP_SECONDS else seconds(value)


def _counts(runs: list[dict[str, Any]]) -> list[str]:
    of = len(runs)
    parts = []
    if count := sum(run["violation"] for run in runs):
        parts.append(f"**V {count}/{of}**")
    if found := [float(run["orphan"]) for run in runs if run["orphan"]]:
        tried = [sum(part) for part in zip(*(run["count"] for run in runs), strict=True)]
        instants = f"{tried[0]} of {tried[1]} instants, " if tried[1] else ""
        parts.append(f"**O {len(found)}/{of}** ({instants}{seconds(max(found))})")
    if found := [float(run["hang"]) for run in runs if run["hang"]]:
        parts.append(f"**H {len(found)}/{of}** ({_long(max(found))})")
    if count := sum(run["wrong"] for run in runs):
        parts.append(f"**W {count}/{of}**")
    return parts


def _delay(runs: list[dict[str, Any]]) -> list[str]:
    delays = sorted(float(run["delay"]) for run in runs if run["delay"] is not None)
    if not delays:
        return []
    middle = delays[len(delays) // 2]
    return ["never" if middle == NEVER else seconds(middle)]


def _remarks(runs: list[dict[str, Any]]) -> list[str]:
    counts = Counter(run["remark"] for run in runs if run["remark"])
    of = len(runs)
    return [text if count == of else f"{text} {count}/{of}" for text, count in counts.most_common()]
