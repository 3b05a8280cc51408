"""How the simulated ports of a Cluster and of a quorum ask several servers at once.

Rules of this file:

- A request to several servers is on its way to all of them before an answer is heard; the answers
  come in any order, and any of them late, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fencelock._core.seat import Question
from fencelock._core.types import NoReply
from fencelock.errors import ServerError
from verification.simulator.network import Link, State, Task
from verification.simulator.port import SimulatedPort
from verification.simulator.server import Request


class Leg:
    """One of several requests under way: who asked, and what for."""

    def __init__(
        self, sending: BroadcastState, ask: Question, request: Request, link: Link
    ) -> None:
        self.sending: BroadcastState = sending
        self.ask: Question = ask
        self.link: Link = link
        self.request: Request = request
        request.asker = self

    @property
    def done(self) -> bool:
        """Return True if nobody waits for it any more."""
        return self.sending.task.done

    @property
    def state(self) -> State:
        """Return what its task waits for."""
        return self.sending

    def take(self, answer: tuple[str, Any]) -> Task | None:
        """Take what it came to; return the task when that was the last."""
        kind, value = answer
        if kind == "error" and isinstance(value, ServerError) and self.ask.raw:
            self.ask.answer(value.__cause__, self.sending.now())
        elif kind == "error":
            self.ask.fail(value)
        else:
            reply = list(value) if isinstance(value, tuple) else value
            self.ask.answer(reply, self.sending.now())
        return self.sending.moved_on()


class BroadcastState(State):
    """What a task waits for that asks several: all of them, or the time that is left then."""

    __slots__ = ("legs", "limit", "now", "task")

    def __init__(self, task: Task, now: Callable[[], float], limit: Callable[[], int]) -> None:
        super().__init__("sending", limit())
        self.task: Task = task
        self.now: Callable[[], float] = now
        self.limit: Callable[[], int] = limit
        self.legs: list[Leg] = []

    def reads(self, link: Link) -> bool:
        """Return True if an answer may come on this connection."""
        return any(leg.link is link and not leg.ask.ended for leg in self.legs)

    def moved_on(self) -> Task | None:
        """Note that one has ended; return the task when it need not wait."""
        self.until_us: int = self.limit()
        if not all(leg.ask.ended for leg in self.legs):
            return None
        self.task.ready = ("value", None)
        return self.task

    def end(self) -> list[Leg]:
        """Wait for nothing any more; return those that got no answer."""
        left = [leg for leg in self.legs if not leg.ask.ended]
        for leg in left:
            leg.request.asker = None
            if not leg.link.port.shared:
                leg.link.sound = False  # an answer may still come: nothing else may be read here
        return left


async def exchange(
    port: SimulatedPort,
    asks: Sequence[Question],
    limit: Callable[[], float],
    send_out: Callable[[Any], Sequence[Request]],
) -> None:
    """Ask all at once, as a quorum does; ``send_out`` connects one, and returns its requests."""

    def limit_us() -> int:
        return port.client.world_us(limit())

    task = port.world.running
    sending = BroadcastState(task, port.now, limit_us) if task is not None else None
    for ask in asks:
        requests = send_out(ask)
        if sending is None or not requests:
            continue
        link: Link = ask.origin
        ask.asked_at = port.now()
        ask.begin()
        for request in requests:
            sending.legs.append(Leg(sending, ask, request, link))
            link.up.append(request)
            link.owed += 1
    if sending is None or all(ask.ended for ask in asks):
        return
    try:
        sending.until_us = limit_us()
        await port.suspend(sending)
    except BaseException:
        sending.end()
        raise
    for leg in sending.end():
        if not leg.ask.ended:
            leg.ask.fail(NoReply("no answer in time", sent=True, undo_connection=leg.link))
