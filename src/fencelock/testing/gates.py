"""Watches events and latches in a world, and says what broke.

It knows when the state was open on the server, in steps of the world: who waits returns True only
when it was open meanwhile, and never goes on waiting, or returns False, when it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencelock._core.signals import Gate, change_latch, passes
from fencelock.errors import OutcomeUnknown, ServerError
from fencelock.testing.hashes import Hash
from fencelock.testing.monitor import UNSERVED_US_MAX, Monitor, Violation
from fencelock.testing.network import Client, Task
from fencelock.testing.server import Request
from fencelock.testing.view import View

# Without any fault the message comes at once.
UNSERVED_US_MAX_FAULTLESS = 100_000

if TYPE_CHECKING:
    from fencelock.testing.simulation import World


def fields(world: World, key: bytes) -> dict[bytes, bytes]:
    """Return the fields of a hash as the server has them now."""
    for name, (value, _) in world.server.state:
        if name == key and isinstance(value, Hash):
            return value
    return {}


class Wait:
    """One wait under way: when it began, was put on the list, and asked for the last time."""

    def __init__(self, client: Client, task: Task, step: int) -> None:
        self.client = client
        self.task = task
        self.began = step
        self.listed: int | None = None
        self.left: int | None = None


class GateMonitor(Monitor):
    """Checks one event or latch, whose key is ``gate``."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._waits: list[Wait] = []
        self._open = False
        self._turns: list[tuple[int, int]] = []  # step and instant at which it opened
        self._closed: list[int] = []
        self._counted: set[Any] = set()
        self._forgot = -1  # the step at which the server forgot everything

    # -- what processes report ------------------------------------------------------------------

    async def waits(self, client: Client, gate: Gate, patience: float | None) -> bool | None:
        """Wait as a face does, and judge how it ends; None when nobody answered."""
        world = self._world
        assert world.running is not None  # noqa: S101 - a task calls it
        wait = Wait(client, world.running, world.taken)
        self._waits.append(wait)
        asked_at = client.port.now()
        try:
            passed = await passes(client.port, gate, patience)
        except (ServerError, OutcomeUnknown) as error:
            if not world.faulty:
                raise Violation("I12", f"without any fault: {error!r}") from error
            passed = None
        finally:
            self._waits.remove(wait)
        if patience and self.is_punctual(client) and client.port.now() > asked_at + patience + 0.1:
            raise Violation("I13", "a wait ended too late")
        self._judge(wait, passed)
        return passed

    def _judge(self, wait: Wait, passed: bool | None) -> None:  # noqa: FBT001 - the result to judge
        if passed is True and not self._was_open_since(wait.began):
            raise Violation("I1", f"{wait.client.name} went on, and it was never open")
        if passed is False and self._missed(wait, wait.left):
            raise Violation("I6", f"{wait.client.name} gave up, and it was open meanwhile")

    def _was_open_since(self, step: int) -> bool:
        turns = [when for when, _ in self._turns] + self._closed
        return self._open or any(when >= step for when in turns)

    def _missed(self, wait: Wait, until: int | None) -> list[tuple[int, int]]:
        if wait.listed is None or self._haunted:
            return []
        last = self._world.taken if until is None else until
        return [turn for turn in self._turns if max(wait.listed, self._forgot) <= turn[0] <= last]

    # -- the server's truth ---------------------------------------------------------------------

    def served(self, request: Request, before: View) -> None:
        """Note what one request changed."""
        super().served(request, before)
        step = self._world.taken
        if request.name == "gate_wait":
            self._asked(request, step)
        if request.name == "latch":
            self._recount(request)
        state = fields(self._world, request.keys[0]) if request.keys else {}
        is_open = state.get(b"open") == b"1"
        if is_open and not self._open:
            self._turns.append((step, self._world.now_us))
        elif self._open and not is_open:
            self._closed.append(step)
        self._open = is_open

    def _asked(self, request: Request, step: int) -> None:
        for wait in self._waits:
            if request.asker is wait.task:
                if request.args[3] == b"leave":
                    wait.left = step
                elif wait.listed is None and request.args[4]:
                    wait.listed = step

    def _recount(self, request: Request) -> None:
        what, _, who, of, by = request.args
        left = int(fields(self._world, request.keys[0]).get(b"left", of))
        if what == b"count_down":
            self._counted.add((who, by))
        expected = max(0, int(of) - sum(int(n) for _, n in self._counted))
        if left != expected:
            raise Violation("I4", f"{left} are left of {int(of)}, not {expected}")

    def flushed(self) -> None:
        """Note that the server forgot everything."""
        super().flushed()
        self._open = False
        self._counted.clear()
        self._forgot = self._world.taken

    def key(self) -> Any:
        """Return what of it decides about later violations."""
        waits = tuple((id(each.task), each.began, each.listed, each.left) for each in self._waits)
        return super().key(), self._open, tuple(self._turns), len(self._closed), waits

    # -- time and the end -----------------------------------------------------------------------

    def passing(self, instant: int) -> None:
        """See that nobody waits on who could have gone (I6)."""
        super().passing(instant)
        most = UNSERVED_US_MAX if self._world.faulty else UNSERVED_US_MAX_FAULTLESS
        for wait in self._waits:
            state = wait.task.state
            waiting = state is not None and state.kind == "wait" and wait.task.ready is None
            if not waiting or not wait.client.alive or not self.is_punctual(wait.client):
                continue
            for _, opened_us in self._missed(wait, None):
                if instant - opened_us > most:
                    raise Violation("I6", f"{wait.client.name} waits on, and it was open")

    def end(self) -> None:
        """Check that nobody is left on the list (I9)."""
        super().end()
        if self._haunted:
            return
        living = [each.port.home for each in self._world.clients if each.alive]
        for key, (value, _) in self._world.server.state:
            if key.endswith(b"~watch"):
                for _, channel in value:
                    if any(channel == home or channel.startswith(home + b".") for home in living):
                        raise Violation("I9", f"{channel!r} is still on the list")


async def count_down(client: Client, gate: Gate, world: World) -> int | None:
    """Count down as a face does; None when nobody answered."""
    try:
        return await change_latch(client.port, gate, b"count_down", 1)
    except (ServerError, OutcomeUnknown) as error:
        if not world.faulty:
            raise Violation("I12", f"without any fault: {error!r}") from error
        return None
