"""Watches a world of the ladder and says what broke, by what holders observe and servers have.

Rules of this file:

- A *claim* is what a process believes: it has the lock. It begins when the program's acquire says
  so and ends when its release begins, or earlier by the program's own deadline, if it has one.
- Two claims that exclude each other at one instant are *two at work*.
- A key that a claim rests on and that another process removes is *another's lock removed*.
- A key that a claim rests on and that a process overwrites which is then refused is *another's
  deadline moved*.
- A key without an end that nobody who lives will remove is *held for ever*.
- A lease whose keys are gone or another's while its holder works on is *over, and nobody told*.
- The judge knows the keyspaces only by what they hold now, so that it can judge real servers, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from verification.simulator.hashes import Hash
from verification.simulator.keyspace import NEVER
from verification.simulator.monitor import Monitor
from verification.simulator.network import Client
from verification.simulator.server import EPOCH_US, Request, Server

TWO = "two at work"
FOREIGN = "another's lock removed"
MOVED = "another's deadline moved"
FOR_EVER = "held forever"
REFUSED = "refused by the Cluster"
OVER = "lease over, holder unaware"

# A key as the judge sees it: which server's, and its name, with a hash's field or a set's member.
Key = tuple[int, bytes]


class Event(NamedTuple):
    """One line of a chart: when, in whose column (None: everybody's), and what."""

    now_us: int
    client: int | None
    text: str


class Look(NamedTuple):
    """What all servers hold; ``holder`` and ``end_us`` are what faults ask for."""

    holder: bytes | None
    end_us: int
    contents: dict[Key, bytes]


@dataclass
class Claim:
    """A process believes that it has the lock."""

    client: Client
    lock: bytes
    keys: frozenset[Key]
    shared: bool
    lasts: Callable[[], bool]
    owned: bool = False  # when it began a key was its own


class Bench:
    """What a judge notes: claims, events, and what broke."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.claims: list[Claim] = []
        self.events: list[Event] = []
        self.broken: dict[str, str] = {}
        self.when: dict[str, int] = {}  # what broke → when
        self.written = 0  # the greatest fence that the protected resource has seen

    def note(self, client: Client | None, text: str) -> None:
        """Note an event for the chart."""
        number = None if client is None else client.number
        self.events.append(Event(self._world.now_us, number, text))

    def breaks(self, name: str, text: str) -> None:
        """Note what broke."""
        self.broken.setdefault(name, text)
        self.when.setdefault(name, self._world.now_us)

    def exclude(self) -> None:
        """Check that no two claims exclude each other."""
        live = [claim for claim in self.claims if claim.client.alive and claim.lasts()]
        for number, one in enumerate(live):
            for other in live[:number]:
                rivals = one.client is not other.client and one.lock == other.lock
                if rivals and not (one.shared and other.shared):
                    first, second = sorted((one.client.name, other.client.name))
                    self.breaks(TWO, f"{first} and {second} are both at work under {name_of(one)}")

    def write(self, client: Client, fence: int) -> None:
        """Write to the protected resource, which refuses a fence below one that it has seen."""
        taken = fence >= self.written
        self.note(client, f"writes with its fence: {'taken' if taken else 'REFUSED by the fence'}")
        self.written = max(self.written, fence)


def name_of(claim: Claim) -> str:
    return claim.lock.decode()


class Witness(Bench, Monitor):
    """Judges the locks of the ladder."""

    pause_us = 1_000_000

    def __init__(self, world: Any) -> None:
        Monitor.__init__(self, world)
        Bench.__init__(self, world)
        self.timeless = True  # a key without an expiry holds its lock for ever
        self._owners: dict[Key, frozenset[Client]] = {}
        self._changed: dict[Key, Client] = {}

    def failed_over(self) -> None:
        """Note that a replica serves now; what it has not got is judged like all else."""

    # -- what processes report ------------------------------------------------------------------

    def claim(self, claim: Claim) -> None:
        """Note that a process believes from now on that it has the lock."""
        self.claims.append(claim)
        self.note(claim.client, "● may read" if claim.shared else f"● has {name_of(claim)}")
        for key in claim.keys:
            if claim.shared:
                self._owners[key] = self._owners.get(key, frozenset()) | {claim.client}
            elif self._changed.get(key) is claim.client:
                self._owners[key] = frozenset({claim.client})
            self._changed.pop(key, None)
        claim.owned = self._owns(claim, self.view().contents)

    def ends(self, client: Client, lock: bytes) -> None:
        """Note that a process does not believe so any more."""
        self.claims = [each for each in self.claims if (each.client, each.lock) != (client, lock)]
        self.note(client, f"○ is done with {lock.decode()}")

    def refused(self, client: Client) -> None:
        """Note that a process did not get the lock; what it changed, it should not have."""
        for key, who in tuple(self._changed.items()):
            if who is client and (owner := self._rests_on(key, client)):
                what = f"{client.name} was refused, and moved {owner.name}'s deadline"
                self.breaks(MOVED, what)
            if who is client:
                del self._changed[key]

    # -- the servers' truth ---------------------------------------------------------------------

    def view(self) -> Any:
        """Return what all servers hold now."""
        contents: dict[Key, bytes] = {}
        end_us = 0
        for number, server in enumerate(self._world.servers):
            for key, (value, end_ms) in server.living().items():
                contents.update(flat(number, key, value))
                if end_ms != NEVER:
                    end_us = max(end_us, end_of(server, end_ms))
        return Look(b"somebody" if end_us else None, end_us, contents)

    def end_us(self) -> int:
        """Return the world's instant at which every lease will have ended."""
        return self.view().end_us

    def served(self, request: Request, before: Any) -> None:
        """Note what one request changed, and judge it."""
        client, number = sender(self._world, request)
        self.note(client, told(request, client, number if len(self._world.servers) > 1 else None))
        after = self.view().contents
        for key in [each for each in before.contents if each[0] == number]:
            self._judge(key, client, before.contents[key], after.get(key))
        for key in after.keys() - before.contents.keys():
            self._owners[key] = frozenset({client})

    def _judge(self, key: Key, client: Client, old: bytes, new: bytes | None) -> None:
        owner = self._rests_on(key, client)
        if new is None and owner is not None:
            self.breaks(FOREIGN, f"{client.name} removed {key[1].decode()}, which {owner.name} has")
        elif new not in {None, old}:
            self._changed[key] = client

    def _rests_on(self, key: Key, other: Client) -> Client | None:
        """Return who, beside the other, claims a lock by this key and set it."""
        for claim in self.claims:
            mine = claim.client is not other and claim.client in self._owners.get(key, ())
            if mine and key in claim.keys and claim.client.alive and claim.lasts():
                return claim.client
        return None

    # -- after each step, and at the end --------------------------------------------------------

    def check(self) -> None:
        """Check what holders observe."""
        contents = self.view().contents
        for claim in self.claims:
            live = claim.owned and claim.client.alive and claim.lasts()
            if live and not self._owns(claim, contents):
                self.breaks(OVER, f"{claim.client.name} keeps working and does not know")
        self.exclude()

    def _owns(self, claim: Claim, contents: dict[Key, bytes]) -> bool:
        """Return True if a key is left that a claim rests on."""
        mine = (key for key in claim.keys if claim.client in self._owners.get(key, ()))
        return any(key in contents for key in mine)

    def passing(self, instant: int) -> None:
        """Judge nothing by how long it takes."""

    def end(self) -> None:
        """See that no key without an end is left."""
        for server in self._world.servers:
            for key, (_, end_ms) in server.living().items():
                if end_ms == NEVER and self.timeless:
                    self.breaks(
                        FOR_EVER, f"{key.decode()} has no expiry, and no process will remove it"
                    )

    def key(self) -> Any:
        """Return what of it decides about later findings."""
        claims = [(each.client.number, each.lock, each.lasts()) for each in self.claims]
        owners = [
            (key, frozenset(each.number for each in who)) for key, who in self._owners.items()
        ]
        changed = frozenset((key, who.number) for key, who in self._changed.items())
        return frozenset(claims), frozenset(owners), changed, self.written


def end_of(server: Server, end_ms: int) -> int:
    """Return the world's instant at which a key will be gone."""
    return (end_ms + 1) * 1000 - EPOCH_US - server.skew_us


def flat(number: int, key: bytes, value: Any) -> dict[Key, bytes]:
    """Return a key as the judge sees it: a hash by its fields, a sorted set by its members."""
    if isinstance(value, Hash):
        return {(number, key + b"." + field): what for field, what in value.items()}
    if isinstance(value, tuple):
        return {(number, key + b"." + member): b"%.0f" % score for score, member in value}
    return {(number, key): value if isinstance(value, bytes) else b"..."}


def sender(world: Any, request: Request) -> tuple[Client, int]:
    """Return whose request it was, and which server ran it."""
    for client in world.clients:
        for link in client.links:
            if any(item.request is request for item in link.down):
                return client, world.servers.index(link.server)
    assert request.asker is not None
    return request.asker.client, 0


def told(request: Request, client: Client, number: int | None = None) -> str:
    """Return a request and its answer, for people."""
    answers = [item.value for link in client.links for item in link.down if item.request is request]
    answer = plain(answers[0]) if answers else "(nobody hears it)"
    where = "" if number is None else f"{number + 1}: "
    return f"{where}{words(request)} → {answer}"


def words(request: Request) -> str:
    parts = [plain(word) for word in (*request.keys, *request.args)]
    if request.keys or request.name.islower():
        return f"{request.name}.lua {' '.join(parts)}"
    return " ".join(parts)


def plain(value: Any) -> str:
    """Return a word or an answer, for people."""
    if value is None:
        return "nil"
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, tuple) and hasattr(value, "message"):
        return str(value.message)
    return str(value)
