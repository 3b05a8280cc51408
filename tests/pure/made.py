"""One of everything that a client makes, and a hold that no server knows."""

from contextlib import nullcontext
from types import SimpleNamespace

from fencelock._core.deadlock.unit_waits import UnitWaits
from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Lines
from fencelock.options import LeaseOptions
from tests.factories import OBJECTS, make


def made_by(client):
    """Return one of everything that a client makes, and the client."""
    made = {factory: make(client, factory) for factory in OBJECTS}
    return [client, *made.values(), made["rwlock"].read, made["rwlock"].write]


def held(deadline=9.0, *, fence=1, ttl=30.0, unit=None, clock=lambda: 1.0, kind=Hold):
    """Return a hold of the lock "a", by that clock."""
    options = LeaseOptions(ttl=ttl, renew=True)
    terms = Terms(keys=LockKeys("p:", "a"), options=options, client_channel=b"h", ttl=ttl)
    tables = {"mutex": nullcontext(), "lines": Lines(), "waits": UnitWaits()}
    port = SimpleNamespace(now=clock, label="", notify_loss=lambda hold: None, **tables)
    hold = kind(terms, b"w", unit=unit)
    hold.start_lease(port, fence, deadline)
    return hold
