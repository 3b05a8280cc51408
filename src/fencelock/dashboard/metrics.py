"""The numbers of one look, as Prometheus reads them.

There is no label with a lock's name: names have ids in them, and each would be a series for ever.
The metrics of the programs that use locks come from those programs (``fencelock.instrumentation``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fencelock.dashboard.board import Board

TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# Name → what it says; the values are made in ``samples``.
METRICS: Final = {
    "fencelock_server_up": "1 if the last look at the server succeeded, else 0.",
    "fencelock_server_locks": "Locks that are held, kept idle by their holder, or only waited for.",
    "fencelock_server_holders": "Clients that hold a lock or permits.",
    "fencelock_server_waiters": "Clients in line for a lock.",
    "fencelock_server_longest_wait_seconds": "How long the longest current wait has lasted.",
    "fencelock_server_longest_hold_seconds": "How long the oldest holder has held its lock.",
    "fencelock_server_cycle_clients": "Clients that wait for each other in a cycle.",
    "fencelock_server_events_1h": "Events of the last hour in the history, by kind.",
    "fencelock_server_look_seconds": "How long the last look at the server took.",
}
KINDS: Final = ("wait", "lost", "revoked", "deadlock")


def exposition(board: Board) -> bytes:
    """Return the text that Prometheus scrapes; without an answer of the server, only that."""
    lines = []
    for name, values in samples(board).items():
        lines += [f"# HELP {name} {METRICS[name]}", f"# TYPE {name} gauge"]
        lines += [f"{name}{_labels(label)} {value:.12g}" for label, value in values.items()]
    return ("\n".join(lines) + "\n").encode()


def samples(board: Board) -> Mapping[str, Mapping[str, float]]:
    """Return each metric with its values, by a label that is empty where there is but one."""
    up = {"fencelock_server_up": {"": 0.0 if board.trouble else 1.0}}
    if board.trouble:
        return up
    totals: dict[str, Any] = board.totals
    return up | {
        "fencelock_server_locks": {f"state={each}": n for each, n in totals["states"].items()},
        "fencelock_server_holders": {"": totals["holders"]},
        "fencelock_server_waiters": {"": totals["waiting"]},
        "fencelock_server_longest_wait_seconds": {"": _age(totals["longest"], board.now)},
        "fencelock_server_longest_hold_seconds": {"": _age(totals["oldest"], board.now)},
        "fencelock_server_cycle_clients": {"": totals["cycle"]},
        "fencelock_server_events_1h": {f"kind={each}": board.counted(each) for each in KINDS},
        "fencelock_server_look_seconds": {"": board.took},
    }


def _age(first: dict[str, Any] | None, now: float) -> float:
    return max(0.0, now - first["since"]) if first else 0.0


def _labels(label: str) -> str:
    name, _, value = label.partition("=")
    return f'{{{name}="{value}"}}' if label else ""
