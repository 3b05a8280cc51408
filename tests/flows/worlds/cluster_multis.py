"""Worlds of a multi over two slots of a Cluster: one of them moves, or loses its master."""

from functools import partial

from fencelock._core.keys import LockKeys
from fencelock._core.keys import slot as slot_of
from tests.flows.worlds.clusters import FAULTS, Clusters
from tests.flows.worlds.locks import FIXED
from tests.flows.worlds.multis import Each, One, both
from verification.simulator.cluster import OTHER, SLOT


class OneInCluster(One):
    """The monitor of one of the locks: it looks at the node that serves its slot."""

    @property
    def _moves(self):
        return slot_of(next(iter(self._keys))) == SLOT

    @property
    def _server(self):
        return self._world.server if self._moves else self._world.nodes[OTHER]

    def _state(self):
        world, state = self._world, self._server.state
        state |= world.nodes[OTHER].state if world.under_way else frozenset()
        return frozenset(each for each in state if each[0] in self._keys)

    def _unserved(self, view):
        """Leave out the time in which no node can serve the lock."""
        away = self._moves and (self._world.under_way or self._world.headless)
        return not away and super()._unserved(view)


# The slot that moves is the first that a multi asks for, or the last.
FIRST = (LockKeys("", "lock"), LockKeys("", "z"))
LAST = (LockKeys("", "a"), LockKeys("", "lock"))


def split(name, locks, *roles, **more):
    monitor = partial(Each, locks=locks, one=OneInCluster)
    return Clusters(f"cluster, multi: {name}", roles, monitor=monitor, **more)


def alone(name, locks):
    return split(f"1 alone, {name}", locks, both(locks=locks))


def two(name, locks):
    return split(f"2 of both, {name}", locks, *(both(locks=locks),) * 2, alike=True)


def giving_up(name, locks):
    """One holds the last lock for longer than the other waits: its first one is given back."""
    return split(
        f"1 of the last, 1 giving up, {name}",
        locks,
        both(locks=locks[1:], work=1.5, options=FIXED),
        both(locks=locks, timeout=1.0),
    )


ALONE = tuple(alone(name, locks) for name, locks in (("first moves", FIRST), ("last moves", LAST)))
TWO = tuple(two(name, locks) for name, locks in (("first moves", FIRST), ("last moves", LAST)))
GIVING_UP = tuple(
    giving_up(name, locks) for name, locks in (("first moves", FIRST), ("last moves", LAST))
)
ALL = (*ALONE, *TWO, *GIVING_UP)


def plan():
    """Yield what the deep exploration goes through."""
    for scenario in ALL:
        yield scenario
        for fault in (*FAULTS, "lost", "cancel", "crash", "late"):
            yield scenario.under(**{fault: 1})
        for fault in ("lost", "cancel", "crash"):
            yield scenario.under(move=1, **{fault: 1})
