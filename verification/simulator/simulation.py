"""A world of processes, a network and a server, in which every next step is a choice.

``steps.options`` lists what may happen next, ``World.act`` lets one of it happen. Rules:

- A step is one of: the server runs the next request of a connection; a message reaches a process;
  a flow runs on; a timer ends; a fault strikes. Between two steps nothing happens.
- Time stands still until nothing else can happen; then it passes to the next timer. Slowness is a
  fault with a budget: it lets time pass while a message is under way.
- Processes share nothing but the server. So while one can do something by itself, only its own
  steps are offered: the order of such steps between processes changes nothing.
- Everything is a function of the choices: the same choices give the same run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from fencelock._core.seat import Seat
from fencelock._core.types import NoReply
from fencelock._io.wire import ReplyError
from fencelock.errors import ServerError
from verification.simulator import faults, steps
from verification.simulator.monitor import Monitor, Violation
from verification.simulator.network import NEVER_US, Client, Item, Link, Task
from verification.simulator.port import SimulatedPort
from verification.simulator.server import EPOCH_US, Refusal, Server

# No schedule of ours takes longer; one that does goes round in circles.
SECONDS_MAX = 60.0
STEPS_MAX = 3000


class World:
    """One run from the beginning.

    ``budgets`` says how often which fault may strike, ``faults_max`` how many of all together.
    ``others``: further servers, which know nothing of each other.
    """

    def __init__(
        self,
        server: Server,
        *,
        others: Sequence[Server] = (),
        budgets: Mapping[str, int] | None = None,
        faults_max: int | None = None,
        symmetric: bool = False,
        push_first: bool = False,
        traced: bool = False,
        monitor: type[Monitor] = Monitor,
        port: type[SimulatedPort] = SimulatedPort,
    ) -> None:
        self.server = server
        self.servers: tuple[Server, ...] = (server, *others)
        for each in self.servers:
            each.reset()
        self.budgets: dict[str, int] = dict(budgets or {})
        self.faults_left: int = sum(self.budgets.values()) if faults_max is None else faults_max
        self.faulty: bool = False  # a fault has struck
        self.symmetric = symmetric
        self.push_first = push_first
        self.clients: list[Client] = []
        self.now_us: int = 0
        self.taken: int = 0  # steps
        self.running: Task | None = None
        self.lines: list[str] | None = [] if traced else None
        self._port = port
        self.monitor: Monitor = monitor(self)

    # -- building -------------------------------------------------------------------------------

    def client(
        self,
        *,
        shared: bool = True,
        server_timeout: float = 5.0,
        rate: float = 1.0,
        keeper: bool = True,
    ) -> Client:
        """Add a process; its clock starts anywhere and runs at ``rate``."""
        number = len(self.clients)
        client = Client(number, 1000.0 * (number + 1), rate)
        self.clients.append(client)
        client.port = self._port(self, client, shared=shared, server_timeout=server_timeout)
        for port in client.port.tended if keeper else ():
            self.start(client, self.monitor.keep(port), keeper=True, lane=port.lane)
        return client

    def start(
        self,
        client: Client,
        flow: Coroutine[Any, Any, None],
        *,
        keeper: bool = False,
        in_background: bool = False,
        lane: int = -1,
    ) -> Task:
        """Start a task in a process; it runs to its first suspension at once."""
        number = len(client.tasks)
        task = Task(client, number, flow, keeper=keeper, in_background=in_background, lane=lane)
        client.tasks.append(task)
        self._step(task, None)
        return task

    def say(self, text: Callable[[], str]) -> None:
        """Note one line of the trace, when there is one."""
        if self.lines is not None:
            self.lines.append(f"{self.now_us / 1e6:9.4f} s  {text()}")

    # -- what happens ---------------------------------------------------------------------------

    def act(self, action: steps.Action) -> None:
        """Let one step happen; Violation when an invariant broke."""
        self.taken += 1
        if self.taken > STEPS_MAX:
            raise Violation("I6", "it goes round in circles")
        self._set_clocks()
        name = action[0]
        if name == "serve":
            self._serve(self.link(action))
        elif name == "hear":
            self._hear(self.link(action))
        elif name in {"resume", "timer"}:
            self._run_on(self.task(action), timer=name == "timer")
        elif name == "pass":
            self._pass()
        elif name == "copy":
            self._copy(self.servers[action[1]])
        elif name in steps.PROGRESS:
            self.advance(name)
        elif name == "die":
            faults.break_link(self, self.link(action), keeps=False)
        else:
            self.faulty = self.faulty or name not in faults.PLANNED
            faults.strike(self, action)
        self.monitor.check()

    def own_faults(self) -> list[steps.Action]:
        """Return the faults that only a world of this kind has."""
        return []

    def disturb(self, kind: str) -> None:
        """Let such a fault begin."""
        raise NotImplementedError(kind)

    def progress(self) -> list[steps.Action]:
        """Return how what has begun may go on by itself."""
        return []

    def advance(self, name: str) -> None:
        """Let it go on."""
        raise NotImplementedError(name)

    def instants_us(self) -> list[int]:
        """Return when something happens to a server by itself."""
        return []

    def link(self, action: steps.Action) -> Link:
        """Return the connection that a step names."""
        return self.clients[action[1]].links[action[2]]

    def task(self, action: steps.Action) -> Task:
        """Return the task that a step names."""
        return self.clients[action[1]].tasks[action[2]]

    def _serve(self, link: Link) -> None:
        request, before = link.up.pop(0), self.monitor.view()
        server = link.server
        outcome = server.run(request)
        self.say(lambda: f"server: {request!r} of {link.client.name} → {outcome.reply}")
        link.client.touched = True
        # In its own answer's company a push goes first on Redis 6.2, last on later servers.
        place = len(link.down)
        for channel, message in outcome.messages:
            self._push(server, channel, message)
        if not link.closed:
            link.down.insert(
                len(link.down) if self.push_first else place, Item(request, outcome.reply)
            )
        self.monitor.served(request, before)
        if link.closed and not link.up:  # only now the server sees that it has ended
            server.unsubscribe(link.who)

    def _copy(self, server: Server) -> None:
        self.say(lambda: "the replica follows")
        server.copy()

    def _push(self, server: Server, channel: bytes, message: bytes) -> None:
        for heard, (number, line) in sorted(server.listeners):
            link = self.clients[number].links[line]
            if heard == channel and not link.closed:
                link.down.append(Item(None, message))

    def _hear(self, link: Link) -> None:
        item = link.down.pop(0)
        client = link.client
        link.silent_since = client.local(self.now_us)
        push, lane = item.request is None, link.port.lane
        client.remember(link.number, push, item.value, self.now_us, lane=lane)
        if item.request is None:
            self.say(lambda: f"{client.name} hears {item.value.decode()}")
            self._dispatch(link, item.value)
            return
        link.owed -= 1
        asker = item.request.asker
        self.say(lambda: f"{client.name} gets the answer to {item.request!r}: {item.value}")
        if asker is None or asker.done:
            return
        item.request.asker = None
        task = asker.take(answer(item.value))
        if task is not None and not link.port.shared:  # the thread that reads goes on by itself
            self._run_on(task, timer=False)

    def _dispatch(self, link: Link, message: bytes) -> None:
        """Hand a push to its process; what it raises would end the reader of a real port."""
        try:
            link.port.pushed(link, message)
        except (TypeError, ValueError) as error:
            raise Violation("I6", f"{message!r} ended its reader: {error!r}") from error

    def _run_on(self, task: Task, *, timer: bool) -> None:
        ready: tuple[str, Any] | None = task.ready
        state = task.state
        task.client.remember(task.number, timer, self.now_us, lane=task.lane)
        if ready is None and state is not None:
            self.say(lambda: f"{task.client.name}'s {state.kind} ends by its time")
            late = NoReply("no answer in time", sent=True, undo_connection=state.link)
            ready = ("error", late) if state.kind == "call" else ("value", None)
        self._step(task, ready)

    def _step(self, task: Task, ready: tuple[str, Any] | None) -> None:
        """Run a flow to its next suspension; it may start another one meanwhile."""
        task.ready, task.state = None, None
        before, self.running = self.running, task
        kind, value = ready or ("value", None)
        try:
            resume: Callable[[Any], Any] = task.coroutine.send
            if kind == "error":
                resume = task.coroutine.throw
            task.state = resume(value)
        except StopIteration:
            task.done = True
        finally:
            self.running = before

    def throw(self, task: Task, error: BaseException) -> None:
        """Throw an exception into a flow where it is suspended."""
        task.client.remember(task.number, type(error).__name__, self.now_us)
        self._step(task, ("error", error))

    def wake(self, client: Client, waiter: Seat) -> None:
        """Let the task that waits for this waiter's news run on."""
        for task in self.waits(client, waiter):
            task.ready = ("value", None)

    def waits(self, client: Client, waiter: Seat) -> list[Task]:
        """Return the task that waits for this waiter's news, if one does."""
        return [
            task
            for task in client.tasks
            if task.state is not None and task.state.kind == "wait" and task.state.waiter is waiter
        ]

    def _pass(self) -> None:
        """Let time pass to the next instant at which something can happen."""
        links = [link for client in self.clients for link in client.links]
        late = any(link.late_up or link.late_down for link in links)
        for link in links:
            link.late_up = link.late_down = False
        instant = self._next_us(links)
        if instant < NEVER_US:
            self.pass_to(instant)
        elif not late:
            raise Violation("I6", "somebody waits for what will never come")
        if self.now_us > SECONDS_MAX * 1e6:
            raise Violation("I6", f"not over after {SECONDS_MAX:.0f} s")

    def _next_us(self, links: list[Link]) -> int:
        """Return the next instant of a timer, of a blocked message, of the end of a pause."""
        instants = [us for link in links for us in link.instants_us()] + self.instants_us()
        for client in self.clients:
            if client.alive and client.paused_us > self.now_us:
                instants.append(client.paused_us)
            elif client.alive:
                instants += [steps.timer_us(task) for task in client.tasks]
        return min((each for each in instants if each > self.now_us), default=NEVER_US)

    def pass_to(self, instant: int) -> None:
        """Set the world's clock forward."""
        self.monitor.passing(instant)
        self.now_us = instant
        self._set_clocks()

    def _set_clocks(self) -> None:
        for server in self.servers:
            server.now_us = EPOCH_US + self.now_us + server.skew_us

    @property
    def skew_us(self) -> int:
        """Return by how much the server's clock was set."""
        return self.server.skew_us

    # -- states ---------------------------------------------------------------------------------

    def key(self) -> int:
        """Return a number that two runs share when all that can follow is the same."""
        return hash(
            (
                self.now_us,
                *[server.key() for server in self.servers],
                tuple(self.budgets.values()),
                self.monitor.key(),
                tuple([client.key() for client in self.clients]),
            )
        )

    def close(self) -> None:
        """End the flows that are still suspended, quietly: what they do now is no schedule's.

        All that refers to each other is emptied, and so freed at once: a search makes thousands of
        worlds, and Python's collector would go through each.
        """
        for client in self.clients:
            client.alive = False
            for task in client.tasks:
                with contextlib.suppress(Violation):
                    task.coroutine.close()
        for client in self.clients:
            for port in client.port.tended:
                vars(port).clear()
            client.links.clear()
            client.tasks.clear()
        del self.monitor


def answer(reply: Any) -> tuple[str, Any]:
    """Return what a flow is resumed with: the reply, or the error that a port makes of it."""
    if isinstance(reply, Refusal):
        error = ServerError(reply.message, code=reply.message.partition(" ")[0])
        error.__cause__ = ReplyError(reply.message)
        return "error", error
    return "value", reply
