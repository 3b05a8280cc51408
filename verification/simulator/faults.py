"""What can go wrong, each with a budget of how often.

==========  =====================================================================================
lost        a connection breaks: the request never arrived, or its answer is gone
cut         a connection on which somebody waits breaks, and its process listens again a while later
zombie      a connection breaks, and the server runs what it was sent some time later
silent      a connection passes nothing any more and looks sound, for as long as a port's patience
stuck       a connection passes nothing until the lock's lease has ended, and then goes on
wake        a push vanishes
twice       a push comes twice
noise       another program publishes to a channel what is no message of ours
late        a message waits until time has passed, or until the lock's lease has ended
expiry      everything stands still until the lock's lease has ended
crash       a process dies
pause       a process stands still for longer than the lease, and stays connected
cancel      a flow is cancelled where it is suspended (asyncio) or interrupted (threads)
back        a server's clock goes back by ten seconds
jump        a server's clock goes forward by ten seconds
restart     a server restarts: connections break, everything is forgotten
reboot      a server restarts with what it had
down        a server is gone for five seconds, and comes back with what it had
unacked     no replica acknowledges in time what one WAIT asks about
failover    a server's replica is promoted: connections break, what it did not get is forgotten
move        of a Cluster, as those that follow: the slot moves to another node (cluster.py)
migrate     the slot moves key by key
freeze      the master stands still, is replaced, and wakes up without knowing it
gone        the master stands still for good, and is replaced
unserved    the same, but late: until a moment after that all other nodes say CLUSTERDOWN
isolated    the master loses the other nodes: it serves for a while, then says CLUSTERDOWN
==========  =====================================================================================
"""

from __future__ import annotations

import asyncio
from typing import Any

from fencelock._core.types import NoReply
from verification.simulator.network import NEVER_US, Client, Item, Link, Task, World
from verification.simulator.replicas import ANSWER_US
from verification.simulator.server import ACKNOWLEDGE, Server

ON_SLOTS = ("move", "migrate", "freeze", "gone", "unserved", "isolated")  # of a Cluster: cluster.py
KINDS = (
    *("lost", "cut", "zombie", "silent", "stuck", "wake", "twice", "noise", "late"),
    *("expiry", "crash", "pause", "cancel"),
    *("back", "jump", "restart", "reboot", "down", "unacked", "failover"),
    *ON_SLOTS,
)
ON_SERVERS = ("back", "jump", "restart", "reboot", "down", "failover")
# What is no fault: clients must lose nothing by it.
PLANNED = ("move", "migrate")
# A clock that is set back by this much runs behind all fences that were given; one that is set
# forward by it has ended all leases.
BACK_US = 10_000_000
# After the lock's end the others need this long to notice and be granted.
AFTER_EXPIRY_US = 300_000

# As long as a process may take to connect again, with the pauses between its tries.
CUT_US = 300_000
RESTART_US = 100_000
DOWN_US = 5_000_000

# What a tenant may publish who knows the names of channels, and no more.
NOISE = (b"granted me 1", b"signal me open", b"revoked")

Action = tuple[Any, ...]


def local(world: World, client: Client) -> list[Action]:
    """Return the faults that compete with a process's own next steps."""
    left = world.budgets
    found: list[Action] = []
    for link in client.links:
        if link.down and link.passes_down(world.now_us):
            found += _on_message(world, link, "down")
    if left.get("cancel"):
        found += _cancellations(client)
    if left.get("pause"):
        found.append(("pause", client.number))
    return found + _expiry(world)


def anywhere(world: World) -> list[Action]:
    """Return the faults that may strike when no process can do anything by itself."""
    left = world.budgets
    found: list[Action] = []
    for client in world.clients:
        for link in client.links:
            if link.up and link.passes_up(world.now_us):
                found += _on_message(world, link, "up")
            elif not link.closed and not link.up and _is_waited_on(link):
                found += [(kind, *link.who, "idle") for kind in ("lost", "cut") if left.get(kind)]
            if left.get("noise") and not link.closed and link.server.listens(link.who):
                found += [("noise", *link.who, number) for number in range(len(NOISE))]
        if client.alive and not _over(client):
            found += [(kind, client.number) for kind in ("crash", "pause") if left.get(kind)]
            found += _cancellations(client) if left.get("cancel") else []
    return found + _on_servers(world) + world.own_faults() + _expiry(world)


def _is_waited_on(link: Link) -> bool:
    return bool(
        link.seat_of or (link.port.shared and (link.channel or link.topics) and link.port.waiters)
    )


def _on_servers(world: World) -> list[Action]:
    return [
        (kind, number)
        for kind in ON_SERVERS
        if world.budgets.get(kind)
        for number, server in enumerate(world.servers)
        if not server.is_down(world.now_us)
    ]


def _over(client: Client) -> bool:
    return all(task.done or task.keeper for task in client.tasks)


def _on_message(world: World, link: Link, way: str) -> list[Action]:
    left = world.budgets
    kinds = [kind for kind in ("lost", "silent") if left.get(kind)]
    if way == "up":
        kinds += ["unacked"] if left.get("unacked") and link.up[0].name == ACKNOWLEDGE else []
        kinds += ["zombie"] if left.get("zombie") and not link.closed else []
    elif link.down[0].request is None:
        kinds = [kind for kind in ("wake", "twice") if left.get(kind)]
    if left.get("stuck") and _end_us(world):
        kinds.append("stuck")
    if left.get("late"):
        kinds += ["late", "late to the end"] if _end_us(world) else ["late"]
    return [(kind, *link.who, way) for kind in kinds]


def _cancellations(client: Client) -> list[Action]:
    return [
        ("cancel", client.number, task.number)
        for task in client.tasks
        if task.state is not None and not (task.keeper or task.in_background or task.done)
    ]


def _end_us(world: World) -> int:
    """Return when the lock's lease will have ended on the server, or 0."""
    return world.monitor.end_us() if world.monitor.view().holder else 0


def _expiry(world: World) -> list[Action]:
    return [("expiry",)] if world.budgets.get("expiry") and _end_us(world) else []


def strike(world: World, action: Action) -> None:
    """Let a fault happen."""
    kind = action[0]
    world.budgets[kind.partition(" ")[0]] -= 1
    world.faults_left -= 1
    if not world.faults_left:
        world.budgets = dict.fromkeys(world.budgets, 0)
    world.say(lambda: f"! {' '.join(map(str, action))}")
    if kind == "cancel":
        _cancel(world, world.task(action))
    elif kind == "crash":
        _crash(world.clients[action[1]])
    elif kind == "pause":
        _pause(world, world.clients[action[1]])
    elif kind == "expiry":
        world.monitor.stood_still()
        world.pass_to(_end_us(world))
    elif kind in {"back", "jump"}:
        set_us = BACK_US if kind == "jump" else -BACK_US
        server = world.servers[action[1]]
        server.skew_us += set_us
        server.now_us += set_us
    elif kind in ON_SLOTS:
        world.disturb(kind)
    elif kind in {"restart", "reboot", "down", "failover"}:
        _restart(world, world.servers[action[1]], kind)
    else:
        _disturb(world, world.link(action), kind, action[3])


def _restart(world: World, server: Server, kind: str) -> None:
    """Start a server anew, with or without what it had, or let its replica serve.

    That takes some time, so that its clock goes on.
    """
    server.generation += 1
    server.started_us = world.now_us + (DOWN_US if kind == "down" else 0)
    if kind == "failover":
        server.fail_over()
        world.monitor.failed_over()
    elif kind == "restart":
        server.forget()
        world.monitor.flushed()
    for client in world.clients:
        for link in tuple(client.links):  # what is sent again goes on a new one
            if client.alive and not link.closed and link.server is server:
                break_link(world, link, keeps=False)
    world.pass_to(world.now_us + RESTART_US)


def _disturb(world: World, link: Link, kind: str, way: Any) -> None:
    link.client.touched = True
    if kind in {"lost", "cut", "zombie"}:
        _break(world, link, kind)
    elif kind == "unacked":
        _unacknowledged(link)
    elif kind == "noise":
        link.down.append(Item(None, NOISE[way]))
    elif kind == "silent":
        link.stalled = link.client.was_cut_off = True
        link.dies_us = world.now_us + int(link.port.stall * 1_000_000)
    elif kind == "wake":
        link.down.pop(0)
    elif kind == "twice":
        link.down.insert(0, link.down[0])
    elif kind == "late" and way == "up":
        link.late_up = True
    elif kind == "late":
        link.late_down = True
    else:
        _block(link, _end_us(world) + AFTER_EXPIRY_US, "both" if kind == "stuck" else way)


def _block(link: Link, until_us: int, way: str) -> None:
    if way != "down":
        link.blocked_up_us = until_us
    if way != "up":
        link.blocked_down_us = until_us


def _break(world: World, link: Link, kind: str) -> None:
    if kind == "zombie":
        world.monitor.is_haunted()
    if kind == "cut":
        link.client.cut_us = world.now_us + CUT_US
    break_link(world, link, keeps=kind == "zombie")


def _unacknowledged(link: Link) -> None:
    """Answer that nobody acknowledged, when the time of the WAIT is up."""
    request = link.up.pop(0)
    link.down.append(Item(request, 0))
    if request.asker is not None and request.asker.state is not None:
        link.blocked_down_us = request.asker.state.until_us - ANSWER_US


def break_link(world: World, link: Link, *, keeps: bool) -> None:
    """Break a connection; with ``keeps`` the server still reads what it was sent."""
    client = link.client
    lost = [] if keeps else link.up
    askers = [request.asker for request in link.up] + [
        item.request.asker for item in link.down if item.request is not None
    ]
    posts = [request for request in link.up if request.posted is not None]
    posts += [each.request for each in link.down if each.request and each.request.posted]
    link.up = [request for request in link.up if request not in lost]
    link.owed = 0
    link.port.hang_up(link)
    link.stalled, link.dies_us = False, NEVER_US
    if not keeps:
        link.server.unsubscribe(link.who)
    for asker in askers:
        if asker is not None and not asker.done:
            asker.take(("error", NoReply("connection lost", sent=True)))
    client.remember("broken", link.number, keeps, world.now_us, lane=link.port.lane)
    link.port.unplugged(link)
    for post in posts:
        post.posted(post)


def _cancel(world: World, task: Task) -> None:
    shared = task.client.port.shared
    world.throw(task, asyncio.CancelledError() if shared else KeyboardInterrupt())


def _crash(client: Client) -> None:
    client.alive = False
    client.remember("crash")
    for link in client.links:
        link.up.clear()
        link.down.clear()
        link.server.unsubscribe(link.who)
    for task in client.tasks:
        task.coroutine.close()
        task.done, task.state, task.ready = True, None, None


def _pause(world: World, client: Client) -> None:
    client.was_paused = True
    client.remember("pause", world.now_us)
    client.paused_us = max(_end_us(world), world.now_us + world.monitor.pause_us) + AFTER_EXPIRY_US
