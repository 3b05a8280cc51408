"""The one table of what tests make: a handle of each kind of object, of a client of either face."""

import pytest

from fencelock import Cohort, Poll

LONG = Cohort(turns=64, seconds=60)
LINGER = 0.02  # who plays with a lease that is kept waits for its end

# What is held.
MADE = {
    "lock": lambda client, name="a", **options: client.lock(name, **options),
    "rlock": lambda client, name="a", **options: client.rlock(name, **options),
    "owner": lambda client, name="a", **options: client.rlock(name, owner="me", **options),
    "semaphore": lambda client, name="a", **options: client.semaphore(name, 1, **options),
    "permits": lambda client, name="a", **options: client.semaphore(name, 2, **options).permits(2),
    "read": lambda client, name="a", **options: client.rwlock(name, **options).read,
    "write": lambda client, name="a", **options: client.rwlock(name, **options).write,
    "multi": lambda client, name="a", **options: client.multi([name, f"{name}-b"], **options),
}
# Of these any thread or task may release what another has.
FREE_TO_ALL = pytest.mark.parametrize(
    "kind",
    ["lock", *(pytest.param(kind, marks=pytest.mark.no_quorum) for kind in ("semaphore", "multi"))],
)
# How turns of a lock come to those who want it.
TURNS = {
    "turns": lambda client, name="a", **options: client.lock(name, cohort=LONG, **options),
    "bound": lambda client, name="a", **options: client.lock(
        name, cohort=Cohort(turns=1, seconds=60), **options
    ),
    "kept": lambda client, name="a", **options: client.lock(
        name, cohort=LONG, linger=LINGER, **options
    ),
    "strict": lambda client, name="a", **options: client.lock(name, cohort=None, **options),
    "poll": lambda client, name="a", **options: client.lock(name, wait=Poll(interval=1), **options),
}
HELD = MADE | TURNS
# The same objects, for a client that would have to wait for any holder.
RIVALS = HELD | {"read": MADE["write"], "multi": MADE["lock"]}
# Of these one handle can hold several at a time.
SHARED = {
    "semaphore": lambda client: client.semaphore("a", 5),
    "permits": lambda client: client.semaphore("a", 9).permits(2),
    "read": MADE["read"],
    "multi of permits": lambda client: client.multi([client.semaphore("a", 5)]),
}
# What is waited for and not held: how one waits, and how another ends that.
WAITS = {
    "event": lambda client, *timeout: client.event("a").wait(*timeout),
    "latch": lambda client, *timeout: client.latch("a", 1).wait(*timeout),
    "barrier": lambda client, *timeout: client.barrier("a", 2).wait(*timeout),
}
ENDS = {
    "event": lambda client: client.event("a").set(),
    "latch": lambda client: client.latch("a", 1).count_down(),
    "barrier": lambda client: client.barrier("a", 2).reset(),
}
