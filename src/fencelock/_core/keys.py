"""The keys of one lock: all in one hash slot, for any name.

Rules of this file:

- The lock's own key is exactly ``prefix + name``: other programs lock the same key.
- Every derived key begins with the prefix (one ACL pattern covers all) and hashes to the slot of
  the lock's key (a script may touch only one slot).
- No name can collide with a derived key: names that end like one are refused here.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

from fencelock._runtime.typed import Final

KINDS: Final = ("record", "queue", "alive", "holds", "revoked")
SIGNAL_KINDS: Final = ("watch", "ids", "places")
ONCE_KINDS: Final = ("once",)
ELECTION_KINDS: Final = ("watchers",)
ACKNOWLEDGED_KINDS: Final = ("acknowledged",)
PREFIX_KINDS: Final = ("quorum", "index", "history", "orders")  # one key each for all locks

# One ending per way to derive, so that no two locks can derive the same key.
RESERVED: Final = tuple(
    f"~{kind}{end}".encode()
    for end in ("", "=", "#")
    for kind in (
        *(*KINDS, *SIGNAL_KINDS, *ONCE_KINDS, *ELECTION_KINDS, *ACKNOWLEDGED_KINDS),
        *PREFIX_KINDS,
    )
)
# A revocation is remembered for as long as a holder may need to learn of it by a renewal.
REVOKED_MS: Final = 600_000
_SLOTS: Final = 16384


@lru_cache(maxsize=1024)
def slot(key: bytes) -> int:
    """Return the Cluster hash slot of a key (CRC16/XMODEM of its tag, as the Cluster spec says)."""
    tag = hash_tag(key)
    return _checksum(key if tag is None else tag) % _SLOTS


def _checksum(text: bytes, begun: int = 0) -> int:
    from binascii import crc_hqx  # noqa: PLC0415 - few programs need it, and it is a library to load

    return crc_hqx(text, begun)


def channel_prefix(key_prefix: str) -> str:
    """Return the prefix of channels: the keys' own, so that one ACL pattern covers both."""
    return "".join("_" if char.isspace() else char for char in key_prefix)


def hash_tag(key: bytes) -> bytes | None:
    """Return the text in the first non-empty braces, or None when the whole key is hashed."""
    opening = key.find(b"{")
    closing = key.find(b"}", opening + 1)
    if opening < 0 or closing <= opening + 1:
        return None
    return key[opening + 1 : closing]


class LockKeys:
    """The six keys of one lock, and the selections of them that the scripts take.

    Most handles are idle, or keep their usual requests packed. So only its own key is stored, and
    ``all`` once a waiter or an undo needs them. They are found by a property: a class with
    ``__getattr__`` makes every attribute slow.

    Raises:
        ValueError: the name ends like a derived key.
    """

    __slots__ = ("_all", "lock", "name", "prefix")

    def __init__(self, prefix: str, name: str) -> None:
        _refuse_derived(name)
        self.name: str = name
        self.lock: bytes = (prefix + name).encode()
        self.prefix: str = prefix
        self._all: tuple[bytes, ...] | None = None

    @property
    def all(self) -> tuple[bytes, ...]:
        """Return all its keys, which it keeps from now on."""
        if self._all is None:
            self._all = self.derive()
        return self._all

    def derive(self) -> tuple[bytes, ...]:
        """Return all its keys, without keeping them."""
        return self.lock, *derived(self.prefix.encode(), self.lock)

    @property
    def plain(self) -> tuple[bytes, ...]:
        """Return its own key."""
        return (self.lock,)

    @property
    def grant(self) -> tuple[bytes, ...]:
        """Return what decides about a grant: all but the mark of a revocation."""
        return self.all[:5]

    @property
    def renew(self) -> tuple[bytes, ...]:
        """Return what a renewal touches."""
        return self.lock, *derived(self.prefix.encode(), self.lock, KINDS[:1])

    @property
    def renew_owned(self) -> tuple[bytes, ...]:
        """Return what a renewal touches that looks at the holds of an explicit owner."""
        lock, record, _, _, holds, _ = self.derive()
        return lock, record, holds

    @property
    def revoked(self) -> bytes:
        """Return the key of an operator's reason."""
        return self.derive()[5]


class SignalKeys:
    """The keys of one event, latch or barrier: its state, its waiters, and which requests ran.

    Raises:
        ValueError: the name ends like a derived key.
    """

    __slots__ = ("all", "name", "state", "watch")

    def __init__(self, prefix: str, name: str) -> None:
        _refuse_derived(name)
        self.name: str = name
        state = (prefix + name).encode()
        self.state: bytes = state
        watch, ids, places = derived(prefix.encode(), state, SIGNAL_KINDS)
        self.watch: tuple[bytes, ...] = (state, watch)
        self.all: tuple[bytes, ...] = (state, watch, ids, places)


def _refuse_derived(name: str) -> None:
    if name.encode().endswith(RESERVED):
        raise ValueError(f"name must not end like one of fencelock's derived keys: {name!r}")


@lru_cache
def _suffixes(kinds: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(f"~{kind}".encode() for kind in kinds)


def derived(prefix: bytes, lock: bytes, kinds: tuple[str, ...] = KINDS) -> tuple[bytes, ...]:
    """Return the keys that belong to a lock's key, one per kind, all in its slot."""
    suffixes = _suffixes(kinds)
    if b"{" not in lock and b"}" not in lock:  # nearly all; each handle and first renewal does it
        tagged = b"%b{%b}" % (prefix, lock)
        return tuple([tagged + suffix for suffix in suffixes])
    if hash_tag(lock) is not None:
        return tuple(lock + suffix + b"=" for suffix in suffixes)
    return tuple(_searched(lock, suffix + b"#") for suffix in suffixes)


def _searched(lock: bytes, suffix: bytes) -> bytes:
    """Return a key with a tag that brings it back to the slot of a key with stray braces.

    A stray brace decides which part of a longer key is hashed: that part has a number in it, which
    is searched.
    """
    before, after = lock + b"{", b"}" + suffix
    if hash_tag(before + b"0" + after) is not None:  # it ends with the number
        before, after = before[before.find(b"{") + 1 :], b""
    number = _number(_checksum(before), after, slot(lock))
    return b"%b{%x}%b" % (lock, number, suffix)


@lru_cache(maxsize=4096)
def _number(begun: int, tail: bytes, wanted: int) -> int:
    """Find the number that, between a checksum's beginning and a tail, leads to the wanted slot.

    1 in 16,384 fits, so the search takes some milliseconds.
    """
    from binascii import crc_hqx  # noqa: PLC0415 - as above

    for number in count():
        if crc_hqx(b"%x%b" % (number, tail), begun) % _SLOTS == wanted:
            return number
    raise AssertionError  # count() does not end


def lock_key(record: bytes, prefix: bytes) -> bytes | None:
    """Return the lock's key that a record key belongs to, or None when it is not one of ours."""
    lock = b""
    if record.endswith(b"~record"):
        lock = record.removesuffix(b"~record").removeprefix(prefix)[1:-1]
    elif record.endswith(b"~record="):
        lock = record.removesuffix(b"~record=")
    elif record.endswith(b"~record#"):
        lock = record[: record.rfind(b"{")]
    ours = len(lock) > len(prefix) and lock.startswith(prefix)
    return lock if ours and derived(prefix, lock)[0] == record else None


def membership_key(prefix: str) -> bytes:
    """Return the key under which the nodes of a quorum remember one another."""
    return f"{prefix}~quorum".encode()


def index_key(prefix: str) -> bytes:
    """Return the key of the names of locks in use, which clients with a history note."""
    return f"{prefix}~index".encode()


def history_key(prefix: str) -> bytes:
    """Return the key of what clients with a history keep for people."""
    return f"{prefix}~history".encode()


def orders_key(prefix: str) -> bytes:
    """Return the key under which processes share the orders in which they take locks."""
    return f"{prefix}~orders".encode()
