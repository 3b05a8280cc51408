"""What the server knows of locks and other objects: what ``client.status`` and the like return.

Each is a named tuple of one moment: it does not follow what happens afterwards. Instants are Unix
time by the server's clock, and spans are seconds.
"""

from __future__ import annotations

from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import Final


def _doing(unit: str, others: int) -> str:
    return f"{unit} and {others} more in turns" if others else unit


def _called(host: str, pid: int, candidate: str, label: str, trace: str) -> str:
    process = f"{host}:{pid}"  # is a candidate's name when it was given none
    names = dict.fromkeys((candidate, label, trace and f"trace {trace}"))
    return ", ".join(each for each in names if each and each != process)


def spelled(who: HolderStatus) -> str:
    """Return its process, and what people call it, in words."""
    names = ", ".join(filter(None, (who.doing, who.called)))
    return f"{who.host}:{who.pid}" + (f" ({names})" if names else "")


def held_at_least(who: HolderStatus) -> str:
    """Return who had a lock in words; as of an answer, after which it may have held on."""
    return f"{spelled(who)} for at least {who.held_for:.1f} s, fence {who.fence}"


class HolderStatus(NamedTuple):
    """A client that holds a lock, or permits of a semaphore or reader/writer lock.

    ``host`` and ``pid`` are its process, ``unit`` its thread or task, ``label`` what the program
    calls itself, and ``candidate`` its name in an election. ``others`` is how many more waiters
    of its client took turns with it when it asked. ``permits`` is 0 for a plain lock. It has held
    since the instant ``since``, that is for ``held_for`` seconds. Its lease lasts for ``remaining``
    seconds if it is not renewed; None: without end. ``trace`` is the id of the trace that its
    request belongs to, if a hook of ``instrumentation`` knows one. ``unit_id`` tells
    threads or tasks of one name apart, in the same process.
    """

    host: str = ""
    pid: int = 0
    unit: str = ""
    label: str = ""
    candidate: str = ""
    others: int = 0
    permits: int = 0
    fence: int = 0
    since: float = 0.0
    held_for: float = 0.0
    remaining: float | None = None
    trace: str = ""
    unit_id: str = ""

    @property
    def process(self) -> tuple[str, int]:
        """Return its process, as ``revoke`` takes it for ``only``."""
        return self.host, self.pid

    @property
    def doing(self) -> str:
        """Return which thread or task it is, and how many more of its client take turns."""
        return _doing(self.unit, self.others)

    @property
    def called(self) -> str:
        """Return what people call it apart from host and process: candidate, label and trace."""
        return _called(self.host, self.pid, self.candidate, self.label, self.trace)

    @property
    def words(self) -> str:
        """Return who it is, since how long, and by which fence, in words."""
        return f"{spelled(self)} for {self.held_for:.1f} s, fence {self.fence}"


class WaiterStatus(NamedTuple):
    """A client that waits in line. The client at ``place`` 1 is granted next.

    It arrived at the instant ``since``, and has waited for ``waited`` seconds. The other
    attributes are those of ``HolderStatus``; ``permits`` is how many it wants.
    """

    place: int = 0
    host: str = ""
    pid: int = 0
    unit: str = ""
    label: str = ""
    candidate: str = ""
    others: int = 0
    permits: int = 0
    since: float = 0.0
    waited: float = 0.0
    trace: str = ""
    unit_id: str = ""

    @property
    def process(self) -> tuple[str, int]:
        """Return its host and process id."""
        return self.host, self.pid

    @property
    def doing(self) -> str:
        """Return which thread or task it is, and how many more of its client take turns."""
        return _doing(self.unit, self.others)

    @property
    def called(self) -> str:
        """Return what people call it apart from host and process: candidate, label and trace."""
        return _called(self.host, self.pid, self.candidate, self.label, self.trace)


class LockStatus(NamedTuple):
    """A lock, semaphore or reader/writer lock at one moment, as the server saw it.

    ``kind`` is ``"lock"``, ``"semaphore"``, ``"rwlock"``, ``"redisson"`` for one in Redisson's
    layout, whose holder is known by its ``field`` alone, or ``"other"`` when the key holds
    something else. ``held`` says whether a client holds it and uses it; ``kept`` that its holder
    does not use it, and gives it up at once when others want it. ``fence`` is that of the last
    grant, 0 when none is known. ``remaining`` is how long the lease that ends first lasts; None:
    without end, or not held.

    ``holders`` are in the order in which their leases end, ``waiters`` in line order; of long lists
    only the beginning is there, and ``holding`` and ``waiting`` are the full numbers. ``limit`` and
    ``taken`` are the permits of a semaphore or reader/writer lock, and 0 for a lock.

    ``local_waiters`` wait for another thread or task of their own client, which holds the lock or
    stands in line for all of that client: their ``place`` is 0, and ``waiting`` counts none of
    them; ``waiting_units`` adds them. Their clients are asked, and one that does not answer in a
    moment is left out. Of very many the last of a client stands for ``others``, too.
    """

    name: str
    kind: str = "lock"
    held: bool = False
    kept: bool = False
    fence: int = 0
    remaining: float | None = None
    holders: tuple[HolderStatus, ...] = ()
    holding: int = 0
    waiters: tuple[WaiterStatus, ...] = ()
    waiting: int = 0
    limit: int = 0
    taken: int = 0
    local_waiters: tuple[WaiterStatus, ...] = ()
    field: str = ""

    @property
    def listed_waiters(self) -> tuple[WaiterStatus, ...]:
        """Return ``waiters``, and then ``local_waiters``."""
        return *self.waiters, *self.local_waiters

    @property
    def waiting_units(self) -> int:
        """Return how many threads and tasks wait, in line and inside their clients.

        Of a client that does not say so, those count that waited in it when it took its place.
        """
        others = sum(who.others for who in self.listed_waiters)
        return self.waiting + len(self.local_waiters) + others

    @property
    def waiting_more(self) -> bool:
        """Return True if more may wait: a longer line has clients that are not listed."""
        return self.kind == "lock" and len(self.waiters) < self.waiting

    @property
    def waiting_words(self) -> str:
        """Return ``waiting_units`` for people; ``"120+"`` says that more may wait."""
        return f"{self.waiting_units}+" if self.waiting_more else f"{self.waiting_units}"

    @property
    def longest_wait(self) -> float:
        """Return how long the listed waiter that came first has waited, in seconds."""
        return max((who.waited for who in self.listed_waiters), default=0.0)

    @property
    def holder(self) -> HolderStatus | None:
        """Return the holder whose lease ends first, or None: free, or held by another program."""
        return self.holders[0] if self.holders else None

    @property
    def foreign(self) -> bool:
        """Return True if it is held by a program that is not fencelock."""
        return self.held and not self.holding

    @property
    def active(self) -> bool:
        """Return True if it is held, kept or waited for; other locks were released a while ago."""
        return self.held or self.kept or self.waiting > 0

    @property
    def writing(self) -> bool:
        """Return True if a writer holds the reader/writer lock."""
        return self.kind == "rwlock" and self.held and self.taken >= self.limit

    @property
    def full(self) -> bool:
        """Return True if a client that asks now has to wait: for one permit of a semaphore."""
        if self.kind == "semaphore":
            return self.waiting > 0 or self.taken >= self.limit
        return self.held

    @property
    def doing(self) -> str:
        """Return the state in a word or two, for people."""
        if self.kind == "semaphore":
            return f"{self.taken} of {self.limit}"
        if self.kind == "rwlock" and self.held:
            return "written" if self.writing else f"read by {self.taken}"
        return "kept" if self.kept else "held" if self.held else "free"


# By the kind, what it is called while it is closed, and while it is open.
SIGNAL_STATES: Final = {
    "event": ("clear", "set"),
    "latch": ("closed", "open"),
    "barrier": ("filling", "filling"),
}


class SignalStatus(NamedTuple):
    """An event, latch or barrier at one moment, as the server saw it.

    ``state`` of an event is ``"set"`` or ``"clear"``, of a latch ``"open"`` or ``"closed"``, of a
    barrier ``"filling"`` or ``"broken"``; ``why`` says why it is broken. ``left`` is what is left
    of a latch's count, or how many parties have arrived at a barrier, ``of`` the whole.
    ``waiting`` counts connections with waiters. It is forgotten after ``remaining`` seconds if no
    client uses it.
    """

    name: str
    kind: str
    state: str
    left: int
    of: int
    why: str
    waiting: int
    remaining: float

    @property
    def doing(self) -> str:
        """Return the state in words, for people."""
        if self.kind == "latch":
            return f"{self.state}, {self.left} of {self.of} left"
        if self.kind == "barrier":
            return f"broken: {self.why}" if self.why else f"{self.left} of {self.of} have come"
        return self.state


class HistoryEntry(NamedTuple):
    """Something that is worth knowing afterwards, as a client with ``history`` kept it.

    ``kind`` is ``"wait"``, ``"lost"``, ``"revoked"``, ``"deadlock"`` or, of `fencelock once`,
    ``"failed"``; ``at`` the instant.
    ``host``, ``pid``, ``unit`` and ``label`` are those of the client that it happened to, and
    ``object`` is the kind of its handle. ``seconds`` is how long it waited, or for ``"lost"`` how
    long it had held the lock, or for ``"failed"`` it ran, and ``outcome`` how that ended.
    ``outcome`` of a wait is ``"granted"``, ``"timed_out"``, ``"refused"`` or ``"gave_up"``;
    ``held_by`` is who had the lock in the last answer that the wait got, and ``first_held_by`` in
    the first one, if that was another. Each is as of its answer, and
    None if no client held it. ``behind`` is the process of ``held_by`` in words. ``reason`` and
    ``detail`` are those of a loss, a revocation or a deadlock.
    Of ``"revoked"`` the client is the holder that lost the lease, and ``by`` who revoked it: each
    revocation is kept, also those of clients without ``history``.
    """

    id: str
    at: float
    kind: str
    name: str
    object: str = ""
    host: str = ""
    pid: int = 0
    unit: str = ""
    label: str = ""
    seconds: float = 0.0
    outcome: str = ""
    reason: str = ""
    detail: str = ""
    behind: str = ""
    by: str = ""
    held_by: HolderStatus | None = None
    first_held_by: HolderStatus | None = None

    @property
    def waited_for(self) -> str:
        """Return who had the lock meanwhile, in words."""
        if self.held_by is None:
            return f"behind {self.behind}" if self.behind else ""
        first = f", at first by {held_at_least(self.first_held_by)}" if self.first_held_by else ""
        return f"held by {held_at_least(self.held_by)}{first}"


class Leader(NamedTuple):
    """The leader, as the server saw it.

    ``since`` is the server's Unix time of the election, in seconds; ``host`` and ``pid`` are the
    process. Two are equal if they describe the same tenure.
    """

    candidate: str
    fence: int
    since: float
    host: str
    pid: int
