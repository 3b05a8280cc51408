"""Shows a schedule as a sequence chart in plain text: a column for each process."""

import textwrap

from verification.ladder.judge import Event, Witness
from verification.ladder.rung import Break
from verification.simulator.explorer import quiet
from verification.simulator.monitor import Violation
from verification.simulator.shortest import USUAL
from verification.simulator.simulation import World
from verification.simulator.steps import Action, options

FAULTS = {
    "crash": "✗ {} dies",
    "pause": "✗ {} stands still for longer than its lease",
    "late up": "✗ {}'s request waits",
    "late down": "✗ {}'s reply waits",
    "late to the end up": "✗ {}'s request waits until the lease has ended",
    "late to the end down": "✗ {}'s reply waits until the lease has ended",
    "lost up": "✗ {}'s connection breaks, the request is lost",
    "lost down": "✗ {}'s connection breaks, the reply is lost",
    "lost idle": "✗ {}'s connection breaks",
    "cancel": "✗ {} is cancelled",
}
ON_SERVERS = {
    "restart": "✗ server {} restarts, empty",
    "jump": "✗ server {}'s clock jumps forward by 10 s",
    "failover": "✗ the master is gone, its replica is promoted",
}

# Each event has a line of its own: a long one may run on below the heads of later columns.
LINE, COLUMNS_END = 100, 72
UNDER = {"subsequent_indent": " " * 11, "break_on_hyphens": False}


def run(world: World, path: tuple[Action, ...]) -> Witness:
    """Let a schedule happen; return who watched it, with its events and what broke."""
    judge: Witness = world.monitor  # type: ignore[assignment]  # what the ladder runs with
    try:
        with quiet():
            for action in path:
                before(judge, world, action)
                world.act(action)
            if not options(world):
                judge.end()
    except Violation as violation:
        judge.breaks(violation.invariant, str(violation))
    finally:
        world.close()
    return judge


def before(judge: Witness, world: World, action: Action) -> None:
    """Note a step that no process sees."""
    if action[0] == "copy":
        judge.note(None, "the replica follows")
    elif action[0] in ON_SERVERS:
        judge.note(None, ON_SERVERS[action[0]].format(action[1] + 1))
    elif action[0] not in USUAL:
        client = world.clients[action[1]]
        fault = " ".join(word for word in action if isinstance(word, str))
        judge.note(client, FAULTS[fault].format(client.name))


def found(how: Break) -> str:
    """Return the chart of the schedule that was found."""
    world = how.world(how.servers())
    return chart(run(world, how.path), [client.name for client in world.clients])


def chart(judge: Witness, names: list[str]) -> str:
    """Return the chart: one line for each event, and what broke at the end."""
    longest = max(len(event.text) for event in judge.events if event.client is not None)
    width = min(longest + 2, COLUMNS_END // len(names))
    head = "seconds  " + "".join(name.ljust(width) for name in names).rstrip()
    body = [row(event, width) for event in judge.events]
    broke = [
        textwrap.fill(f"{seconds(judge.when[name])}  ⇒ {name}: {how}", LINE, **UNDER)
        for name, how in judge.broken.items()
    ]
    return "\n".join([head, *body, *broke])


def seconds(now_us: int) -> str:
    return f"{now_us / 1e6:7.3f}"


def row(event: Event, width: int) -> str:
    return f"{seconds(event.now_us)}  {' ' * (width * (event.client or 0))}{event.text}"
