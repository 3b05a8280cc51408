"""One of everything that a client makes, and a hold that no server knows."""

from contextlib import nullcontext
from types import SimpleNamespace

from fencelock._core.deadlock.unit_waits import UnitWaits
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Lines
from fencelock.options import LeaseOptions


def made_by(client):
    """Return one of everything that a client makes, and the client."""
    both = client.rwlock("rw")
    yield from (client, client.lock("a"), client.rlock("r"), both, both.read, both.write)
    yield from (client.semaphore("s", 2), client.bounded_semaphore("b", 2))
    yield from (client.event("e"), client.latch("l", 2), client.barrier("n", 2))
    yield from (client.multi(["x", "y"]), client.election("leader"))
    yield client.once("o", within=60)


def held(deadline=9.0, *, fence=1, ttl=30.0, unit=None, clock=lambda: 1.0, kind=Hold):
    """Return a hold of the lock "a", by that clock."""
    options = LeaseOptions(ttl=ttl, renew=True)
    terms = Terms(keys=LockKeys("p:", "a"), options=options, client_channel=b"h", ttl=ttl)
    tables = {"mutex": nullcontext(), "lines": Lines(), "waits": UnitWaits()}
    port = SimpleNamespace(now=clock, label="", notify_loss=lambda hold: None, **tables)
    hold = kind(terms, b"w", unit=unit)
    hold.start_lease(port, fence, deadline)
    return hold
