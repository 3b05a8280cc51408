"""What ``ls``, ``show`` and ``break`` say of events, latches and barriers."""

from __future__ import annotations

from typing import Any

from fencelock._core.inspect_signals import SignalInfo, break_barrier, show_signal, signals
from fencelock._core.keys import SignalKeys
from fencelock._ports.blocking import run_blocking
from fencelock.cli.output import facts, human, json_line, table
from fencelock.cli.session import Session
from fencelock.errors import ServerUnsuitable

_HEADER = ("NAME", "KIND", "STATE", "WAITING", "KEPT FOR")


def found(session: Session, pattern: str) -> list[SignalInfo]:
    """Return those whose names match."""
    return run_blocking(signals(session.port, session.prefix, pattern))


def one(session: Session, name: str) -> SignalInfo | None:
    """Return the one that a name holds, if it does; over a quorum there is none."""
    if session.port.nodes:
        return None
    return run_blocking(show_signal(session.port, SignalKeys(session.prefix, name)))


def summary(info: SignalInfo) -> dict[str, Any]:
    """Return what ``--json`` prints of one."""
    told: dict[str, Any] = {"name": info.name, "kind": info.kind, "state": info.state}
    if info.of:
        told |= {"count": info.left, "of": info.of}
    if info.why:
        told["why"] = info.why
    return told | {"waiting": info.waiting, "kept_for": round(info.remaining, 3)}


def print_table(infos: list[SignalInfo]) -> None:
    """Print them for people."""
    rows = [
        (each.name, each.kind, each.doing, str(each.waiting), human(each.remaining))
        for each in infos
    ]
    table(_HEADER, rows)


def print_one(info: SignalInfo, key: str, *, json: bool) -> None:
    """Print one."""
    if json:
        json_line(summary(info) | {"key": key})
        return
    facts(
        {
            "name": info.name,
            "key": key,
            "kind": info.kind,
            "state": info.doing,
            "waiting": str(info.waiting),
            "kept for": human(info.remaining),
        }
    )


def break_one(session: Session, info: SignalInfo) -> None:
    """Break a barrier; ServerUnsuitable for what nobody can take away."""
    if info.kind != "barrier":
        kind = f"{'an' if info.kind == 'event' else 'a'} {info.kind}"
        raise ServerUnsuitable(f"{info.name!r} is {kind}: it has no holder", code="WRONGTYPE")
    run_blocking(break_barrier(session.port, info, SignalKeys(session.prefix, info.name)))
