"""Watches events and latches in a world, and says what broke.

It knows when the state was open on the server, in steps of the world: who waits returns True only
when it was open meanwhile, and never goes on waiting, or returns False, when it was.
"""

from __future__ import annotations

from typing import Any

from fencelock._core.objects.event_latch import change, wait_until_open
from fencelock._core.objects.state_wait import StateSpec
from fencelock.errors import OutcomeUnknown, ServerError
from verification.simulator.hashes import Hash
from verification.simulator.monitor import UNSERVED_US_MAX, Monitor, Violation
from verification.simulator.network import Client, Task, World
from verification.simulator.server import Request
from verification.simulator.view import View

# Without any fault the message comes at once.
UNSERVED_US_MAX_FAULTLESS = 100_000


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
    """Checks one event or latch, whose key is ``spec``."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._waits: list[Wait] = []
        self._open = False
        self._turns: list[tuple[int, int]] = []  # step and instant at which it opened
        self._closed: list[int] = []
        self._changed: set[Any] = set()  # the requests that took effect, for ever
        self._latches: set[int] = set()  # the counts that latches were made with
        self._model: Any = None  # whether an event is set; a latch's count and what is left of it
        self._forgot = -1  # the step at which the server forgot everything

    # -- what processes report ------------------------------------------------------------------

    async def waits(self, client: Client, spec: StateSpec, timeout: float | None) -> bool | None:
        """Wait as a face does, and judge how it ends; None when nobody answered."""
        world = self._world
        assert world.running is not None
        wait = Wait(client, world.running, world.taken)
        self._waits.append(wait)
        asked_at = client.port.now()
        try:
            passed = await wait_until_open(client.port, spec, timeout)
        except (ServerError, OutcomeUnknown) as error:
            if not world.faulty and not self.was_refused(error, spec):
                raise Violation("I12", f"without any fault: {error!r}") from error
            passed = None
        finally:
            self._waits.remove(wait)
        if timeout and self.is_punctual(client) and client.port.now() > asked_at + timeout + 0.1:
            raise Violation("I13", "a wait ended too late")
        self._judge(wait, passed)
        return passed

    def was_refused(self, error: Exception, spec: StateSpec) -> bool:
        """Return True if a latch has another count than this one's."""
        other = bool(self._latches - {spec.of})
        return other and isinstance(error, ServerError) and error.code == "WRONGTYPE"

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
        if request.name == "event_wait":
            self._asked(request, step)
        if request.name == "latch":
            self._latches.add(int(request.args[3]))
        if request.name in {"latch", "event"}:
            self._change(request)
        if request.name == "event_wait" and request.args[0] == b"latch":
            self._begins(request)
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

    def _change(self, request: Request) -> None:
        """Let each request take effect once, however late it comes again (I4)."""
        found = self._state(request)
        what, who = request.args[0], request.args[2]
        if what == b"look" or who in self._changed:
            allowed = {bool(self._model) if request.name == "event" else self._model}
        elif request.name == "event":
            allowed = {what == b"set"}
        else:
            allowed = _counted(self._model, what, *map(int, request.args[3:5]))
        if what != b"look":
            self._changed.add(who)
        if found not in allowed:
            raise Violation("I4", f"it is {found}, not {allowed}, after {request!r}")
        self._model = found

    def _state(self, request: Request) -> Any:
        """Return whether an event is set, or the count of a latch and what is left of it."""
        state = fields(self._world, request.keys[0])
        if request.name == "event":
            return state.get(b"open") == b"1"
        return (int(state[b"of"]), int(state[b"left"])) if b"of" in state else None

    def _begins(self, request: Request) -> None:
        """Note the count that a wait gives to a latch, if it was not counted down."""
        found, of = self._state(request), int(request.args[2])
        self._latches.add(of)
        if found != self._model:
            if found != (of, of) or (self._model and self._model[0] != self._model[1]):
                raise Violation("I4", f"a wait made {found} of {self._model}")
            self._model = found

    def flushed(self) -> None:
        """Note that the server forgot everything."""
        super().flushed()
        self._open = False
        self._changed.clear()
        self._model = None
        self._forgot = self._world.taken

    def key(self) -> Any:
        """Return what of it decides about later violations."""
        waits = tuple((each.task.who, each.began, each.listed, each.left) for each in self._waits)
        return super().key(), self._model, self._open, tuple(self._turns), len(self._closed), waits

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
        living = [each.port.client_channel for each in self._world.clients if each.alive]
        for key, (value, _) in self._world.server.state:
            if key.endswith(b"~watch"):
                for _, channel in value:
                    if any(
                        channel == client_channel or channel.startswith(client_channel + b".")
                        for client_channel in living
                    ):
                        raise Violation("I9", f"{channel!r} is still on the list")


def _counted(model: tuple[int, int] | None, what: Any, of: int, by: int) -> set[Any]:
    """Return what a change may make of a latch; one of another count is refused, or begins anew."""
    if what == b"delete":
        return {None}
    anew = (of, of if what == b"reset" else max(0, of - by))
    if model is None or (model[0] == of and what == b"reset"):
        return {anew}
    if model[0] == of:
        return {(of, max(0, model[1] - by))}
    idle = model[0] == model[1] or (what == b"reset" and model[1] == 0)
    return {model, anew} if idle else {model}


async def count_down(
    client: Client, spec: StateSpec, world: World, what: bytes = b"count_down"
) -> int | None:
    """Change a latch as a face does, by one; None when nobody answered, or it was refused."""
    monitor = world.monitor
    try:
        return await change(client.port, spec, what, 1)
    except (ServerError, OutcomeUnknown) as error:
        refused = isinstance(monitor, GateMonitor) and monitor.was_refused(error, spec)
        if not world.faulty and not refused:
            raise Violation("I12", f"without any fault: {error!r}") from error
        return None
