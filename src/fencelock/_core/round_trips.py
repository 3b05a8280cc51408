"""How far away an address is: the round trips that were seen there bound the next exchanges.

Rules of this file:

- What may be awaited on a near network is awaited everywhere; where round trips are long, so many
  of them are. So a far server is not taken for a dead one, and the death of a near one is noticed
  as soon as ever.
- The shorter of the last two round trips counts: one answer that was late by chance changes
  nothing, and one quick answer ends what slow ones have begun.
- It is noted where a connection is opened and where an answer is late; a usual quick answer costs
  the look at one flag.
- Where nothing was seen yet, opening a connection gets all the time there is, unless there are
  other servers. After one that was not opened in time, the next one gets more.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from fencelock._core.deadlines import SILENT_SECONDS
from fencelock._runtime.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fencelock._core.types import Carrier

# Longer round trips are noted: the shortest bound, a quorum's ``node_timeout``, is three of these.
NOTED_SECONDS: Final = 0.015
# An answer is late after so many round trips: a lost packet is sent again, and an unknown script.
ANSWER_TRIPS: Final = 3
# A call: its answer, and what proves it behind Sentinels or in a Cluster.
CALL_TRIPS: Final = 8
# Opening a connection: for TCP and TLS, with a password, with greetings, and some to spare.
DIAL_TRIPS: Final = 10
CALL_SECONDS: Final = 1.1
# A lease that is handed over begins with so many: for its message and its first renewal; and with
# so many behind Sentinels, which prove each.
HANDOFF_TRIPS: Final = 10
PROVED_HANDOFF_TRIPS: Final = 14
# All that a first call needs: addresses, connections, scripts. ``server_timeout`` is no less.
FIRST_TRIPS: Final = 20
# A connection to an address that has answered before may take so long to open, even if its caller
# has less time.
DIAL_SECONDS: Final = 1.0
LONGER: Final = 3  # and after one that was not opened in time, so many times as long


def _nothing() -> None:
    """Do nothing."""


class RoundTrips:
    """The round trips to one address, or to the slowest of several that matter."""

    __slots__ = (
        *("_first", "_last", "_longer", "_rank", "_whole", "call", "handoff", "noted", "parts"),
        *("seconds", "seen", "silence", "watched"),
    )

    def __init__(self, first: float = inf) -> None:
        """Begin with nothing seen; ``first``: how long the first connection may take to open."""
        self.seconds: float = 0.0
        self.seen: bool = False  # an answer came
        self.watched: bool = True  # the next answer is noted, also a quick one
        # A connection that was used before is given up when it is silent for so long.
        self.silence: float = SILENT_SECONDS
        self.call: float = CALL_SECONDS  # a call that is not answered by then is tried anew
        # A lease that is handed over begins with so many: its message, and its first renewal.
        self.handoff: int = HANDOFF_TRIPS
        self.noted: Callable[[], None] = _nothing  # called after each change
        self.parts: tuple[RoundTrips, ...] = ()  # if they are those to several addresses
        self._last = inf
        self._first = first
        self._longer = 0.0  # how long the next connection may take, after one that took too long
        self._whole: RoundTrips | None = None
        self._rank = 0

    def saw(self, seconds: float) -> None:
        """Note how long an answer took."""
        self.seen, self._longer = True, 0.0
        self._last, before = seconds, self._last
        self._note(min(seconds, before))
        self.watched = seconds > NOTED_SECONDS

    def suppose(self, seconds: float) -> None:
        """Until an answer comes, take an address for as far away as another one is."""
        if not self.seen:
            self._note(seconds)

    def missed(self, seconds: float) -> None:
        """Note that a connection was not opened within so many seconds."""
        self._longer = LONGER * seconds

    def _note(self, seconds: float) -> None:
        self.seconds = seconds
        self.silence = self.within(SILENT_SECONDS)
        self.call = self.within(CALL_SECONDS, CALL_TRIPS)
        if self._whole is not None:
            self._whole.settle()
        self.noted()

    def within(self, least: float, trips: int = ANSWER_TRIPS) -> float:
        """Return how long to wait for what takes so many round trips at most."""
        far = self.seconds * trips
        return far if far > least else least  # noqa: FURB136 - max() takes ten times as long

    @property
    def far(self) -> bool:
        """Return True if round trips are longer than on a near network."""
        return self.silence > SILENT_SECONDS

    def to_open(self, most: float) -> float:
        """Return how long opening a connection may take, if there is so much time at all."""
        usual = self.within(DIAL_SECONDS if self.seen else self._first, DIAL_TRIPS)
        return min(most, max(usual, self._longer))

    def adopt(self, connection: Carrier) -> None:
        """Note what a new connection has seen, and let it note its answers here from now on."""
        self.saw(connection.trips.seconds)
        connection.trips = self

    # -- of several addresses -------------------------------------------------------------------

    def of_several(self, rank: int = 0) -> RoundTrips:
        """Judge by the parts from now on, by the slowest, or by that with so many slower ones."""
        self._rank = rank
        return self

    def part(self) -> RoundTrips:
        """Return those of one more address."""
        part = RoundTrips()
        self.include(part)
        return part

    def include(self, part: RoundTrips) -> None:
        """Judge by one more address."""
        part._whole = self
        self.parts += (part,)

    def settle(self) -> None:
        """Take the round trip that counts from the parts that were seen."""
        seen = sorted((part.seconds for part in self.parts if part.seen), reverse=True)
        rank = max(
            0, self._rank - (len(self.parts) - len(seen))
        )  # those that are silent are slower
        if len(seen) > rank:
            self.seen, self.watched = True, seen[rank] > NOTED_SECONDS
            self._note(seen[rank])
