"""A Cluster, without its connections: which node serves which slot, and is still a master.

Rules of this file:

- The map is a hint. What counts is a node's answer: MOVED corrects the map at once, and a node that
  does not answer makes the whole map doubtful, as another may have taken its place.
- Nodes that are not in doubt are asked for the map first.
- Nothing here blocks. Any thread reads and changes the map; each change is one assignment.

Whether a node that answers as a master still is one:

- A master that was frozen and replaced still serves requests for a moment when it wakes up. Those
  answers must not be trusted: its successor may have granted the same lock.
- Replacing a master takes a node timeout without a sign of life, a second at least. So a node that
  was the master a second ago, and answers at once, is still the master; each such answer proves it
  for another second.
- If that was not proved, other nodes are asked, after the answer, which node is the master. They
  answer with a redirect, which costs them nothing.
- All its replicas are asked first: a successor was one of them, and knows before other nodes do. If
  none answers, any other node is asked.
- A node that is named instead is asked as well: a slot may just have moved, and its old master
  knows best.
- If no other node answers, the node is trusted: its successor would answer. One that is alone in
  the map counts for another second, too: without another master, no replica is elected.

Whose a message is that is pushed:

- A node passes on what other nodes publish. So a message of a master that was replaced is heard on
  a connection to its successor.
- It says which node sends it. One of another node than the slot's master, or that says none, is a
  hint: who waits asks the master. A user may lack the permission to name the node, and an earlier
  build does not.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import inf
from typing import Any, Final, NamedTuple

from fencelock._core.keys import hash_tag, slot
from fencelock._core.seat import Seat
from fencelock._core.types import NoReply
from fencelock._runtime.clock import now
from fencelock.errors import ServerError
from fencelock.scripts.constants import NODE_MARK, NODE_WORD, SHARDED_MARK

SLOTS: Final = 16384
# The map is not read again before this long: many who find a node dead need it once.
PAUSE_SECONDS: Final = 0.05
# How long a proof lasts; no node timeout is shorter.
SURE_SECONDS: Final = 1.0
# An answer that takes longer may have waited in a frozen master.
PROMPT_SECONDS: Final = 0.2
# A node that did not answer is not asked again for a while: each time may cost its timeout.
SILENT_SECONDS: Final = 5.0
# One node's time to tell the map, before another one is asked.
MAP_SECONDS: Final = 0.5
# Redirects that one attempt follows: more come only while slots move to and fro.
REDIRECTS_MAX: Final = 5

READ_MAP: Final = (b"CLUSTER", b"SLOTS")
# Channels that end like this are in the slot of their lock (sharded), or are heard at the node of
# their lock only; and we read which node sends a message. See _channel.lua.
SHARDED: Final = (NODE_MARK + SHARDED_MARK).encode()
LOCAL: Final = f"{NODE_MARK}+".encode()
SENT_BY: Final = NODE_WORD.encode()


class NodeAddress(NamedTuple):
    """The address of one node of a Cluster."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


# Asks a node for the master of the slot; None when it does not say.
Named = Callable[[NodeAddress], Awaitable[NodeAddress | None]]


class ClusterSource(NamedTuple):
    """A Cluster: some nodes to begin with, and how to connect to any of its nodes."""

    seeds: tuple[NodeAddress, ...]
    at: Callable[[NodeAddress], Any]  # a source, see ``_io.sources.kinds``
    label: str
    # from what nodes say of one to where we reach it
    remap: Callable[[NodeAddress], NodeAddress] | None = None


class Redirect(NamedTuple):
    """Where a node sends us; ``asking``: for this one request only (ASK)."""

    node: NodeAddress
    asking: bool


class MasterCheck:
    """When each node was last known to be alive and a master. Each change is one assignment."""

    def __init__(self, now: Callable[[], float] = now) -> None:
        self._now = now
        self._at: defaultdict[NodeAddress, float] = defaultdict(lambda: -inf)
        self._silent: dict[NodeAddress, float] = {}  # when they did not say

    def covers(self, node: NodeAddress, said_at: float) -> bool:
        """Return True if a node's answer of this instant counts."""
        return said_at - self._at[node] <= SURE_SECONDS

    def note(self, node: NodeAddress, at: float) -> None:
        """Note that a node was alive and a master at an instant."""
        self._at[node] = at

    def counts(self, node: NodeAddress, asked_at: float) -> bool:
        """Return True if the answer that has just come counts; then the next one may, too."""
        if self._now() - asked_at > PROMPT_SECONDS:
            return False
        if asked_at - self._at[node] > SURE_SECONDS:  # as ``covers``
            return False
        self._at[node] = asked_at
        return True

    async def inquire(
        self,
        node: NodeAddress,
        replicas: Sequence[NodeAddress],
        others: Sequence[NodeAddress],
        named: Named,
    ) -> bool | None:
        """Return True if other nodes confirm that a node that has just answered is the master.

        None when no other node says.
        """
        answered_at = self._now()
        agreed = await self._asked(node, replicas, named, enough=len(replicas))
        if agreed is None:
            agreed = await self._asked(node, others, named, enough=1)
        if agreed or not (replicas or others):
            self.note(node, answered_at)
        return agreed

    async def _asked(
        self, node: NodeAddress, others: Iterable[NodeAddress], named: Named, *, enough: int
    ) -> bool | None:
        """Ask other nodes; False when one names a node other than this, None for silence."""
        agreed = 0
        for other in others:
            if agreed == enough:
                break
            if self._now() - self._silent.get(other, -inf) < SILENT_SECONDS:
                continue
            master = await named(other)
            if master is None:
                self._silent[other] = self._now()
                continue
            if master not in {node, other}:
                master = await named(master) or master
            if master != node:
                return False
            agreed += 1
        return True if agreed else None


class SlotMap:
    """Which node serves each slot, as far as we know."""

    def __init__(
        self,
        seeds: Sequence[NodeAddress],
        remap: Callable[[NodeAddress], NodeAddress] | None = None,
        *,
        now: Callable[[], float] = now,
    ) -> None:
        self._now = now
        self._seeds = tuple(seeds)
        self._remap = remap
        self.owners: list[NodeAddress | None] = [None] * SLOTS  # of each slot
        self._doubted: dict[NodeAddress, None] = {}
        self.masters: tuple[NodeAddress, ...] = ()
        self.replicas: tuple[NodeAddress, ...] = ()
        self.followers: dict[NodeAddress, tuple[NodeAddress, ...]] = {}
        self.ids: dict[NodeAddress, bytes] = {}  # by which nodes call themselves
        self.doubtful = True  # it must be read (again)
        self.read_at = 0.0
        self.master_check = MasterCheck(now)

    @property
    def known(self) -> bool:
        """Return True if it was ever read."""
        return bool(self.masters)

    def sure(self, key: bytes) -> NodeAddress | None:
        """Return the node that serves a key; None when that must be asked for."""
        return None if self.doubtful else self.owners[slot(key)]

    def is_of_master(self, key: bytes, sender: bytes) -> bool:
        """Return True if a message was sent by the node that serves a key."""
        node = self.sure(key)
        return node is not None and sender != b"" and self.ids.get(node) == sender

    def disbelieves(self, waiter: Seat, node: NodeAddress, sender: bytes) -> bool:
        """Return True if a pushed grant must be asked for: its node may have been replaced.

        ``node`` is where the waiter heard it, ``sender`` the id of the node that sent it.
        """
        misplaced = self.sure(waiter.key) != node or not self.is_of_master(waiter.key, sender)
        return misplaced or not self.master_check.covers(node, self._now())

    def invalidate(self, node: NodeAddress | None) -> None:
        """Note that a node did not answer."""
        if node is not None:
            self._doubted[node] = None
        self.doubtful = True

    def sources(self) -> Iterator[NodeAddress]:
        """Return the nodes to ask for the map, in this order."""
        everyone = self._everyone()
        doubted = [node for node in everyone if node in self._doubted]
        yield from (node for node in everyone if node not in self._doubted)
        yield from doubted

    def _everyone(self) -> dict[NodeAddress, None]:
        return dict.fromkeys((*self.masters, *self.replicas, *self._seeds))

    def learn(self, reply: Any, asked: NodeAddress) -> None:
        """Take an answer to CLUSTER SLOTS."""
        owners: list[NodeAddress | None] = [None] * SLOTS
        masters: dict[NodeAddress, None] = {}
        followers: dict[NodeAddress, tuple[NodeAddress, ...]] = {}
        ids: dict[NodeAddress, bytes] = {}
        for first, last, *nodes in reply:
            named = [(self._named(each, asked), b"".join(each[2:3])) for each in nodes]
            ids |= {node: name for node, name in named if node}
            found = [node for node, _ in named if node]
            if not found:
                continue
            owners[first : last + 1] = [found[0]] * (last + 1 - first)
            masters[found[0]] = None
            followers[found[0]] = tuple(found[1:])
        self.owners, self.read_at, self.doubtful = owners, self._now(), False
        self._doubted, self.ids = {}, ids
        self.masters = tuple(masters) or self.masters
        self.followers = followers
        self.replicas = tuple(dict.fromkeys(each for some in followers.values() for each in some))

    def redirect(self, error: ServerError) -> Redirect | None:
        """Return where an error reply redirects us, and note what it says about the map.

        NoReply if a master has become a replica: another node has replaced it.
        """
        if error.code in {"CLUSTERDOWN", "READONLY"}:
            self.doubtful = True
        if error.code == "READONLY":
            raise NoReply(str(error), sent=False) from error
        if error.code not in {"MOVED", "ASK"}:
            return None
        number, node = self._target(error)
        if error.code == "MOVED":
            self.owners[number] = node
            self.doubtful = True  # rarely has only one slot moved
        return Redirect(node, error.code == "ASK")

    def named(self, error: ServerError, asked: NodeAddress) -> NodeAddress | None:
        """Return the master of the slot that a node was asked about, according to its refusal.

        Only a master says WRONGTYPE and ASK: it owns a migrating slot until that has moved.
        """
        if error.code == "MOVED":
            return self._target(error)[1]
        return asked if error.code in {"ASK", "WRONGTYPE"} else None

    def _target(self, error: ServerError) -> tuple[int, NodeAddress]:
        """Return slot and node of a redirect; without a host, the same host is meant.

        With one that the node does not know ("?"), the node that has this port in the map.
        """
        _, number, where = str(error.__cause__).split(" ")[:3]
        host, _, port = where.rpartition(":")
        owner = self.owners[int(number)] or self._seeds[0]
        if host == "?":
            known = [each for each in self._everyone() if each.port == int(port)]
            return int(number), (known or [owner._replace(port=int(port))])[0]
        return int(number), self._reached(NodeAddress(host.strip("[]") or owner.host, int(port)))

    def _named(self, address: Sequence[Any], asked: NodeAddress) -> NodeAddress | None:
        """Return a node of the map; None for one of which no address is known.

        Where a host name is preferred and a node has announced none ("?"), its IP stands beside it.
        """
        host = (address[0] or b"").decode()
        if host == "?":
            beside = address[3] if len(address) > 3 else {}  # noqa: PLR2004 - host, port, id
            facts = (
                beside
                if isinstance(beside, dict)
                else dict(zip(beside[::2], beside[1::2], strict=False))
            )
            host = facts.get(b"ip", b"?").decode()
        return (
            None if host == "?" else self._reached(NodeAddress(host or asked.host, int(address[1])))
        )

    def _reached(self, node: NodeAddress) -> NodeAddress:
        """Return the address of a node that another node reported."""
        return node if self._remap is None else self._remap(node)


def opened(payload: bytes) -> tuple[bytes, bytes]:
    """Return the id of the node that sent a message, b"" if it does not say, and the message."""
    if not payload.startswith(SENT_BY):
        return b"", payload
    sender, _, message = payload.removeprefix(SENT_BY).partition(b" ")
    return sender, message


@lru_cache(maxsize=4096)
def in_slot(base: bytes, number: int) -> bytes | None:
    """Return a channel that begins with ``base`` and hashes to a slot; None where there is none.

    There is none when ``base`` has a tag of its own, which decides.
    """
    own = hash_tag(base + b"{x}")
    if own == b"x":
        return b"%b{%b}%b" % (base, tag_in(number), SHARDED)
    channel = base + SHARDED
    return channel if slot(channel) == number else None


def key_in(number: int) -> bytes:
    """Return some key of a slot."""
    return b"{%b}" % tag_in(number)


def tag_in(number: int) -> bytes:
    """Return four letters that hash to a slot.

    A checksum of two halves is the first half's, carried on, xor the second's: so the second half
    is looked up, and not searched for.
    """
    ends = _pairs()
    for first in ends.values():
        carried = crc_hqx(first + b"\0\0", 0)
        for high in range(0, 1 << 16, SLOTS):
            second = ends.get(carried ^ (number | high))
            if second is not None:
                return first + second
    raise AssertionError  # there are a thousand


@lru_cache(maxsize=1)
def _pairs() -> dict[int, bytes]:
    """Return all pairs of letters by their checksum."""
    letters = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
    return {crc_hqx(pair, 0): pair for a in letters for b in letters if (pair := bytes((a, b)))}
