"""Find deadlocks by probes from each wait to what it waits for (Chandy, Misra and Haas, 1983).

A wait that lasts sends a probe to the client that holds its lock. If the thread or task that made
that hold waits, too, the probe goes on; if it comes back to the wait that sent it, there may be a
cycle.

Rules of this file:

- The first round only suspects. The second follows the same path and no other: each wait and each
  turn has an id that no other one has, so what both rounds saw lasted all the time in between. Then
  all edges existed at the instant between the rounds, and the cycle is a true one.
- A wait refuses only itself, and only as the youngest of its cycle. So of a cycle one wait is
  refused, whichever looks. It closed the cycle as it began, so it finds it when it looks first.
- A wait is refused only if all edges of its cycle are certain: see ``is_certain``, and the scripts.
  Another cycle is reported, once for each wait, and left alone.
- A thread that waits for its own hold is a cycle only if that is certain, and if no timeout ends
  the wait: then no other wait is held up.
- A message may be lost, and a probe may be given up anywhere: that costs time, as the wait looks
  again. The server keeps nothing.
- Only a unit that holds something looks: no other can be in a cycle.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._core.deadlock.probe import PathProbe, Step, pack, unpack, youngest
from fencelock._core.deadlock.unit_waits import AGAIN_SECONDS_MAX, UnitWait, is_certain, is_edge
from fencelock._core.description import described
from fencelock._core.lock.hold import Hold
from fencelock._core.port import Port
from fencelock._core.wire import Wire
from fencelock._runtime.log import log
from fencelock.errors import Blocked, Deadlock
from fencelock.scripts import ANSWER


def look(port: Port, wait: UnitWait, now: float) -> None:
    """Look for a cycle that a wait is in, and set when it looks again."""
    wait.frames(own=True)
    with port.mutex:
        holds = port.waits.holds_of(wait.attempt.unit)
        ports = list(dict.fromkeys(hold.port for hold in holds if hold.port))
    if not ports:
        wait.due = float("inf")  # while it waits, it acquires nothing
        return
    for own in ports:
        if not own.hears:
            own.hear_soon()  # the probe comes back there
    wait.due = now + wait.pause
    wait.pause = min(2 * wait.pause, AGAIN_SECONDS_MAX)
    wait.searches += 1
    _send_on(wait, PathProbe(f"{_text(wait.id)} {wait.searches}", ()))


def arrived(port: Port, holder: bytes, text: bytes) -> None:
    """Take a probe that came to the client of a holder."""
    probe = unpack(text)
    if probe is None:
        return
    with port.mutex:
        holds = [hold for hold in port.renewals.tracked() if hold.holder_id == holder]
    for hold in holds:
        _pass(port, hold, probe)


def _pass(port: Port, hold: Hold, probe: PathProbe) -> None:
    """Follow a probe from a hold to what the thread or task that made it waits for."""
    whole = hold.whole
    if hold.port is None:  # it was released just now
        return
    with port.mutex:
        wait = port.waits.of(whole.unit) if is_edge(whole) else None
        fresh = wait is not None and port.waits.passes(probe.round, wait)
    certain = wait is not None and is_certain(whole, wait.frames(own=False))
    probe = probe.blocked_by(_text(hold.holder_id), hold.fence, certain=certain)
    if wait is None or probe.strays():
        return
    if _text(wait.id) == probe.begun_by:
        if len(probe.path) > 1 or (certain and wait.patient):
            _came_back(wait, probe)
    elif fresh and not probe.passes_twice(_text(wait.id)):
        _send_on(wait, probe)


def _came_back(wait: UnitWait, probe: PathProbe) -> None:
    """Confirm a cycle, or take it for true when it is confirmed."""
    if not probe.cycle:
        _send_on(wait, PathProbe(probe.search, (), probe.path))
    elif youngest(probe.path).wait == _text(wait.id):
        if all(step.certain for step in probe.path):
            refuse(wait, probe.path)
        elif not wait.suspected:
            wait.suspected = True
            _suspect(wait, probe.path)


def _send_on(wait: UnitWait, probe: PathProbe) -> None:
    """Send a probe from a wait to the hold that it waits for."""
    port, asks = wait.port, wait.asks
    with port.mutex:
        if not wait.stands:
            return
        arrived_us = wait.arrival()
    expected = probe.cycle[len(probe.path)].holder if probe.cycle else ""
    # What the next client knows is left empty.
    step = Step(_text(wait.id), arrived_us, asks.keys.name, _text(wait.attempt.info))
    text = pack(probe.extended(step))
    if arrived_us and text is not None:
        port.run_in_background(*asks.terms.probe(asks, expected.encode(), text))


def refuse(wait: UnitWait, cycle: Sequence[Step]) -> None:
    """End a wait with ``Deadlock``: it leaves its line as any waiter that gives up."""
    port, asks = wait.port, wait.asks
    with port.mutex:
        if not wait.stands or wait.cycle is not None:
            return
        wait.cycle = tuple(cycle)
        asks.news = True
        port.wake(asks)
    if not asks.local:  # a thread that reads its own connection is woken by a message there
        args = (asks.channel, asks.id, b"again")
        port.run_in_background(ANSWER, wait.attempt.keys.plain, args)


def _suspect(wait: UnitWait, cycle: Sequence[Step]) -> None:
    """Report a cycle that may end by itself: another thread or task may release a hold of it."""
    error = error_of(wait.port, wait, cycle)
    log.warning("perhaps a %s; it is left alone, as others may release what was acquired", error)
    if wait.attempt.event is not None:
        wait.attempt.event.suspected(error)


def error_of(port: Wire, wait: UnitWait, cycle: Sequence[Step] = ()) -> Deadlock:
    """Return the error for a wait that is refused, or that is in a cycle."""
    found = tuple(map(_blocked, cycle or wait.cycle))
    return Deadlock(wait.attempt.keys.name, cycle=found, server=port.label)


def own_cycle(port: Wire, wait: UnitWait, hold: Hold) -> Deadlock:
    """Return the error for a thread or task that waits for its own hold."""
    step = Step(_text(wait.id), 0, wait.asks.keys.name, _text(wait.attempt.info))
    wait.cycle = (step._replace(holder=_text(hold.holder_id), fence=hold.fence),)
    return error_of(port, wait)


def _blocked(step: Step) -> Blocked:
    told = described(step.info)
    pid = told.get("pid", 0)
    return Blocked(
        name=step.name,
        host=str(told.get("host", "")),
        pid=pid if isinstance(pid, int) else 0,
        unit=str(told.get("unit", "")),
        label=str(told.get("label", "")),
        fence=step.fence,
    )


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
