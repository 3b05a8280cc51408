"""What may happen next in a world: the choices that an explorer goes through."""

from __future__ import annotations

from typing import Any

from verification.simulator import faults
from verification.simulator.network import NEVER_US, Client, Link, Task, World

# A step: what happens, to which process, connection or task (numbers, so that it can be replayed).
Action = tuple[Any, ...]
# Steps whose number is a server's.
PROGRESS = ("migrated", "thaw", "learn", "carry")  # of a Cluster: see cluster.py
ON_SERVERS = ("copy", *faults.ON_SERVERS, *faults.ON_SLOTS, *PROGRESS)


def options(world: World) -> list[Action]:
    """Return every next step; the undisturbed one first; none when all has ended."""
    for client in world.clients:
        own = _own_steps(world, client)
        if own:
            return own + faults.local(world, client)
    steps: list[Action] = [
        ("serve", *link.who)
        for client in world.clients
        for link in client.links
        if link.up and link.passes_up(world.now_us) and not link.server.frozen
    ]
    steps += world.progress()
    steps += [("copy", n) for n, server in enumerate(world.servers) if server.lags]
    if not any(step[0] == "serve" for step in steps) and _unfinished(world):
        steps.append(("pass",))
    if steps:
        steps += faults.anywhere(world)
    return _in_order(world, steps) if world.symmetric else steps


def _own_steps(world: World, client: Client) -> list[Action]:
    if not client.alive or client.paused_us > world.now_us:
        return []
    number, now_us = client.number, world.now_us
    steps: list[Action] = [
        ("hear", number, link.number)
        for link in client.links
        if link.down and _readable(world, link)
    ]
    steps += [("die", number, link.number) for link in client.links if link.dies_us <= now_us]
    for task in client.tasks:
        if task.ready is not None:
            steps.append(("resume", number, task.number))
        elif not task.done and timer_us(task) <= now_us:
            steps.append(("timer", number, task.number))
    return steps


def _readable(world: World, link: Link) -> bool:
    if not link.passes_down(world.now_us):
        return False
    port = link.port
    # The thread that renews reads the connection on which it hears the messages for its client.
    if port.shared or link.down[0].request is not None or link.channel == port.client_channel:
        return True
    # A thread reads its own connection, while it waits or asks on it.
    return any(
        task.state is not None and task.state.reads(link) and task.ready is None
        for task in link.client.tasks
    )


def _to_be_heard(world: World, link: Link) -> bool:
    """Return True if something is under way to a process that will read it."""
    if not link.down or not link.client.alive:
        return False
    if link.passes_down(world.now_us):
        return _readable(world, link)
    return link.down[0].request is not None


def timer_us(task: Task) -> int:
    """Return when a task's suspension ends by itworld."""
    state = task.state
    if state is None or task.done:
        return NEVER_US
    if state.port is not None:
        due = state.port.renewals.next_at()
        # A keeper is never woken within the very microsecond: real clocks do not stand still.
        return NEVER_US if due is None else task.client.world_us(due) + 1
    return state.until_us


def _unfinished(world: World) -> bool:
    return any(
        (client.alive and any(not (task.done or task.keeper) for task in client.tasks))
        or any(
            (link.up and not link.server.gone) or _to_be_heard(world, link) for link in client.links
        )
        or (client.alive and client.paused_us > world.now_us)
        for client in world.clients
    )


def _in_order(world: World, steps: list[Action]) -> list[Action]:
    """Processes that are alike begin in the order of their numbers: all else is a renaming."""
    first = next((each.number for each in world.clients if not each.touched), NEVER_US)
    return [step for step in steps if len(step) == 1 or step[0] in ON_SERVERS or step[1] <= first]
