"""Which explorations make which call of the API, and which faults meet it there.

A call that no exploration makes is unproved, and so is a fault that no call meets. ``CALLS`` names
for each public call the flows that it runs, by a name of decisions.py or by their place;
``LEFT_OUT`` names the others, each with a reason. Which flows a world runs is not written down but
seen: some of its schedules run under a profiler.

``python -m tests.flows.alphabet`` prints the table.
"""

# ruff: noqa: T201 - its output is its purpose

import functools
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from types import CodeType

from tests.factories import FACTORIES
from tests.flows import deep
from tests.flows.sowing import find
from tests.flows.worlds.locks import Scenario
from tests.flows.worlds.shares import Shared

SCHEDULES = 4  # of each world under the profiler: what it calls hardly differs among them

# What may befall any call: an answer, a message, a connection, a process, the time, the server.
FAULTS = deep.FAULTS

ACQUIRE, RELEASE = "engine.acquire", "_core.lock.release:take_and_release"
RENEW = "_core.lock.renew:renew_now"
TURN, RUN = "_core.lock.tenure:Tenure.begin", "_core.objects.once:Runs.start"
FOR_NEXT = "_core.lock.tenure:Tenure.for_next"
SET_LIMIT = "_core.objects.semaphore_rwlock:set_limit"
CHANGE, CHANGE_BARRIER = "_core.objects.event_latch:change", "_core.objects.barrier:change"
WAIT = "_core.objects.state_wait:StateWait.outcome"
MAINTAIN = "_core.lock.maintain:Renewer.maintain"
PACKED = "_topology.cluster:ClusterPort.run_packed"

# Family of worlds → call → the flows that it runs.
CALLS: dict[str, dict[str, tuple[str, ...]]] = {
    "lock": {
        "Lock.acquire": (ACQUIRE,),
        "Lock.release": (RELEASE,),
        "RLock.acquire": (ACQUIRE,),
        "RLock.release": (RELEASE,),
        "Lease.check": ("_core.lock.hold:Hold.check",),
        "Lease.lost": ("_core.lock.hold:Hold.lost",),
        "Lease.renew": (RENEW,),
        "Client.revoke": ("_core.look.show:Looker.revoke",),
    },
    "cohort": {
        "Lock.acquire in turn": (ACQUIRE, "_core.lock.tenure:join", TURN),
        "Lock.release to the next": (RELEASE, "_core.lock.tenure:Tenure.pass_on"),
        "Lock.release for the next": (RELEASE, FOR_NEXT, "terms.acquire_next"),
        "Lease.renew in turn": (RENEW, TURN),
    },
    "semaphore": {
        "Semaphore.acquire": (ACQUIRE,),
        "Semaphore.release": (RELEASE,),
        "Semaphore.set_limit": (SET_LIMIT,),
        "BoundedSemaphore.acquire": (ACQUIRE,),
        "BoundedSemaphore.release": (RELEASE,),
        "BoundedSemaphore.set_limit": (SET_LIMIT,),
    },
    "rwlock": {
        "ReadLock.acquire": (ACQUIRE,),
        "ReadLock.release": (RELEASE,),
        "WriteLock.acquire": (ACQUIRE,),
        "WriteLock.release": (RELEASE,),
    },
    "multi": {
        "MultiLock.acquire": ("joint.acquire",),
        "MultiLock.release": ("joint.release",),
    },
    "once": {
        "Once.run": (RUN, "once.finish"),
        "Once.__call__": (RUN, "once.finish"),
        "Once.outcome": ("_core.objects.once:Runs.read",),
        "Once.forget": ("_core.objects.once:Runs.forget",),
    },
    "election": {
        "Election.campaign": (ACQUIRE,),
        "Election.resign": (RELEASE,),
        "Election.hand_over": ("election.hand_over",),
        "Election.changes": ("election.next_change",),
    },
    "event": {
        "Event.set": (CHANGE,),
        "Event.clear": (CHANGE,),
        "Event.delete": (CHANGE,),
        "Event.is_set": ("_core.objects.event_latch:wait_until_open",),
        "Event.wait": (WAIT,),
    },
    "latch": {
        "Latch.count_down": (CHANGE,),
        "Latch.reset": (CHANGE,),
        "Latch.delete": (CHANGE,),
        "Latch.wait": (WAIT,),
    },
    "barrier": {
        "Barrier.wait": ("_core.objects.barrier:wait_at",),
        "Barrier.abort": (CHANGE_BARRIER,),
        "Barrier.reset": (CHANGE_BARRIER,),
        "Barrier.delete": (CHANGE_BARRIER,),
    },
    "cluster": {
        "Lock.acquire in a Cluster": (ACQUIRE, "cluster.run"),
        "Lock.release in a Cluster": (RELEASE, "cluster.run"),
        "Lease.renew in a Cluster": (MAINTAIN, PACKED),
    },
    "quorum": {
        "Lock.acquire on a quorum": ("_core.quorum.engine:QuorumEngine.take",),
        "Lock.release on a quorum": ("_core.quorum.lease:Majority.give_back",),
        "Lease.renew on a quorum": ("_core.quorum.lease:Majority.renew",),
    },
}

NAMED = {flow for calls in CALLS.values() for flows in calls.values() for flow in flows}

LOCAL = "answers from what this process knows, and sends nothing"
READS = "reads once and changes nothing: tests/conformance"
ENTRY = (
    "is acquire and release, with the choice of the error that leaves: tests/pure, tests/threads"
)
HINT = "is no call of ours: it says what ours is called"
LEFT_OUT = {
    "close": "ends what is explored here: tests/threads, tests/tasks",
    "locked": READS,
    "owned": READS,
    "available": READS,
    "count": READS,
    "n_waiting": READS,
    "broken": READS,
    "leader": READS,
    "candidates": READS,
    "__enter__": ENTRY,
    "__exit__": ENTRY,
    "permits": ENTRY,
    **dict.fromkeys(
        (
            *("name", "names", "lease", "limit", "read", "write", "parties", "lock", "fence"),
            *(
                "fences",
                "holder",
                "ttl",
                "deadline",
                "remaining",
                "expires_at",
                "candidate",
                "unchanged",
            ),
            *("is_leader",),
        ),
        LOCAL,
    ),
    # What other libraries call it: each raises an error that names ours, and sends nothing.
    **dict.fromkeys(("extend", "reacquire", "refresh", "read_lock", "write_lock"), HINT),
    **dict.fromkeys(("RWLock.acquire", "RWLock.release", "Lease.release"), HINT),
    # Made of the calls above.
    **dict.fromkeys(("Client.locks", "Client.status", "Client.signals", "Client.history"), READS),
    **dict.fromkeys((f"Client.{made}" for made in FACTORIES), "makes a handle, and sends nothing"),
    "MultiLease": "asks the leases that it is made of",
}


def family(scenario: Scenario) -> str:
    """Return what the scenario explores."""
    if isinstance(scenario, Shared):
        sides = any(word in scenario.name for word in ("reader", "writer", "grad"))
        return "rwlock" if sides else "semaphore"
    first = re.split(r"[:,]", scenario.name)[0]
    return first if first in CALLS else "lock"


def base(scenario: Scenario) -> tuple[str, str]:
    """Return the family and the name that a scenario has without its faults."""
    return family(scenario), re.split(r", \d+ [a-z]+(?:\+|$)", scenario.name)[0]


def flows_of(scenario: Scenario) -> set[str]:
    """Return the flows that some schedules of a world call."""
    called: set[CodeType] = set()

    def profile(frame, event, _arg) -> None:
        if event == "call":
            called.add(frame.f_code)

    sys.setprofile(profile)
    try:
        scenario.explore(schedules=SCHEDULES)
    finally:
        sys.setprofile(None)
    return {name for name in NAMED if any(each.__code__ in called for each in find(name))}


@functools.cache
def met() -> dict[str, dict[str, set[str]]]:
    """Return for each call the worlds that make it, and the faults that may strike in each.

    A world whose faults have met all calls of its family is not looked at: it would add nothing.
    """
    worlds: defaultdict[tuple[str, str], list[Scenario]] = defaultdict(list)
    for scenario in deep.plan():
        worlds[base(scenario)].append(scenario)
    found: dict[str, dict[str, set[str]]] = {call: {} for calls in CALLS.values() for call in calls}
    for (kind, name), scenarios in sorted(worlds.items(), key=most_faults_first):
        faults = {fault for each in scenarios for fault in each.budgets}
        if all(found[call] and faults <= seen(found[call]) for call in CALLS[kind]):
            continue
        # A name stands for two kinds of world: without faults, and with one.
        called = flows_of(scenarios[0]) | flows_of(scenarios[-1])
        for call, flows in CALLS[kind].items():
            if called.issuperset(flows):
                found[call].setdefault(name, set()).update(faults)
    return found


def most_faults_first(named: tuple[tuple[str, str], list[Scenario]]) -> int:
    """Return a key to sort worlds with."""
    return -len({fault for each in named[1] for fault in each.budgets})


def seen(worlds: dict[str, set[str]]) -> set[str]:
    """Return the faults of some worlds."""
    return set().union(*worlds.values())


def table() -> Iterator[str]:
    """Yield the table: a call a row, a fault a column."""
    faults = sorted(set().union(*map(seen, met().values())))
    yield f"| call | {' | '.join(faults)} |"
    yield "| --- |" + " --- |" * len(faults)
    for call, worlds in met().items():
        cells = " | ".join("●" if fault in seen(worlds) else "" for fault in faults)
        yield f"| `{call}` | {cells} |"


if __name__ == "__main__":
    print("\n".join(table()))
