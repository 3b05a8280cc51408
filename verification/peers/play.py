"""Plays faults on columns, several at a time, each on a stage of its own."""

from __future__ import annotations

import concurrent.futures
import contextlib
import queue
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from verification.peers.columns import Column, absent
from verification.peers.faults import FAULTS, Fault, holders, names, replies, waiters  # noqa: F401 - they add themselves
from verification.peers.seen import Seen, record
from verification.peers.stage import Stage

ORDER = ("replies", "holders", "waiters", "names")
ROWS = sorted(FAULTS, key=lambda fault: ORDER.index(fault.play.__module__.rpartition(".")[2]))
TRIES = 3  # a run that could not be played, because of the machine, is played again


class Stages:
    """Stages that are free, kept for the next fault of their column."""

    def __init__(self) -> None:
        self._free: dict[str, queue.SimpleQueue[Stage]] = defaultdict(queue.SimpleQueue)
        self._all: list[Stage] = []

    @contextlib.contextmanager
    def lent(self, column: Column) -> Iterator[Stage]:
        free = self._free[column.name]
        try:
            stage = free.get_nowait()
        except queue.Empty:
            stage = Stage(column)
            self._all.append(stage)
        yield stage
        free.put(stage)

    def close(self) -> None:
        for stage in self._all:
            stage.close()


def play(
    pairs: Iterable[tuple[Column, Fault]], *, runs: int, jobs: int
) -> dict[str, dict[str, Any]]:
    """Return what was seen, by column and fault."""
    stages, told = Stages(), {}
    with contextlib.closing(stages), concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        asked = []
        for column, fault in pairs:
            if column.name not in told:
                told[column.name] = {"absent": why} if (why := absent(column)) else {}
            if "absent" not in told[column.name] and column.face in fault.faces:
                asked.append((column, fault, pool.submit(_cell, stages, column, fault, runs)))
        for column, fault, future in asked:
            told[column.name][fault.key] = future.result()
    return told


def _cell(stages: Stages, column: Column, fault: Fault, runs: int) -> dict[str, Any]:
    with stages.lent(column) as stage:
        try:
            found = record([_once(stage, fault, run) for run in range(runs)])
        except NotImplementedError as error:
            found = {"absent": str(error)}
        except Exception as error:  # noqa: BLE001 - one cell that cannot be played spoils no other
            found = {"failed": f"{type(error).__name__}: {error}"}
    print(f"{column.name}: {fault.key} {found.get('failed', '')}", file=sys.stderr, flush=True)
    return found


def _once(stage: Stage, fault: Fault, run: int) -> Seen:
    for left in reversed(range(TRIES)):
        try:
            with stage.run(f"{fault.key}-{run}", *fault.args):
                return fault.play(stage)
        except (RuntimeError, AssertionError, OSError, TimeoutError) as error:
            if isinstance(error, NotImplementedError) or not left:
                raise
    raise AssertionError("unreachable")
