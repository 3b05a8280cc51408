"""Processes that do the work, so that the one that measures is idle meanwhile.

``Crew(2).all(function, argument)`` runs it in both and returns both results. What a worker has
opened stays open between calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self

from contestants import ALL_OURS, TASKS, CannotRun, Contestant, Pair, make
from slow import slowed
from wire import Address

ANSWER_SECONDS = 600.0  # 100,000 locks are acquired and released


class Who(NamedTuple):
    """A contestant as a worker finds it: by name and face, on a server."""

    name: str
    face: str
    address: Address
    slow_us: int = 0
    loop: str = "asyncio"


class Crew:
    """Worker processes, started afresh (not forked) and ended together."""

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def send(self, worker: int, function: Callable[..., Any], *args: object) -> None:
        self._pipes[worker].send((function, args))

    def result(self, worker: int) -> Any:
        """Return what it returned; an error there is raised here."""
        if not self._pipes[worker].poll(ANSWER_SECONDS):
            raise TimeoutError(f"a worker has not answered for {ANSWER_SECONDS:.0f} s")
        failed, value = self._pipes[worker].recv()
        if failed:
            raise CannotRun(value)
        return value

    def call(self, worker: int, function: Callable[..., Any], *args: object) -> Any:
        self.send(worker, function, *args)
        return self.result(worker)

    def all(self, function: Callable[..., Any], *args: object) -> list[Any]:
        """Run it in every worker, with the worker's number first."""
        for worker in range(len(self._pipes)):
            self.send(worker, function, worker, *args)
        answers: list[Any] = []
        errors: list[Exception] = []
        for worker in range(len(self._pipes)):  # every answer is taken, so that none is left over
            try:
                answers.append(self.result(worker))
            except CannotRun as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return answers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()
            process.join()


# --- in the worker --------------------------------------------------------------------------------

_loops: dict[str, asyncio.AbstractEventLoop] = {}
_opened: dict[Who, Contestant] = {}
_pairs: dict[tuple[Who, str], list[Pair]] = {}


def _serve(pipe: Connection) -> None:
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            function, args = pipe.recv()
            try:
                pipe.send((False, function(*args)))
            except CannotRun as error:
                pipe.send((True, str(error)))
            except Exception as error:  # noqa: BLE001  # a peer's error is told, with its name
                pipe.send((True, f"{type(error).__name__}: {error}"))


def loop_of(who: Who) -> asyncio.AbstractEventLoop:
    """Return this process's event loop of that kind; it lives as long as the process."""
    if who.loop not in _loops:
        if who.loop == "uvloop":
            import uvloop  # noqa: PLC0415  # optional

            _loops[who.loop] = uvloop.new_event_loop()
        else:
            _loops[who.loop] = asyncio.new_event_loop()
    return _loops[who.loop]


def opened(who: Who) -> Contestant:
    if who not in _opened:
        contestant = make(who.name, who.face, who.address)
        if who.face == TASKS:
            loop_of(who).run_until_complete(contestant.open())
        _opened[who] = contestant
    return _opened[who]


def pairs(who: Who, name: str, count: int) -> list[Pair]:
    """Return that many workers' pairs for one lock; the same ones next time."""
    have = _pairs.setdefault((who, name), [])
    while len(have) < count:
        have.append(new_pair(who, name))
    return have[:count]


def new_pair(who: Who, name: str) -> Pair:
    contestant = opened(who)
    pair = _made_in_loop(who, contestant, name) if who.face == TASKS else contestant.pair(name)
    slow_us = who.slow_us if who.name in ALL_OURS else 0
    return slowed(pair, who.face, who.address, slow_us)


def _made_in_loop(who: Who, contestant: Contestant, name: str) -> Pair:
    async def made() -> Pair:
        return contestant.pair(name)

    return loop_of(who).run_until_complete(made())
