"""Ask clients who waits inside them: of a cohort the server knows only the front.

Rules of this file:

- A client is asked by a message to its channel, and answers by one. Nothing is kept for that, and
  nothing is sent while no person looks.
- An answer has a bound: it begins with the lock that was asked about.
- Without an answer, in a moment, the client may be frozen: only what the server knows is shown.
- A look asks a bounded number of clients. One that is repeated asks those first that spoke longest
  ago, and remembers what the others said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf

from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import counting
from fencelock._core.lock.idle import answered
from fencelock._core.lock.tenure import Tenure
from fencelock._core.seat import Seat
from fencelock._core.types import Call
from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import TYPE_CHECKING
from fencelock.scripts import ANSWER

if TYPE_CHECKING:
    from fencelock._core.engine import Engine

# How long one may take if no client heard the question at the server that was asked: in a Cluster
# it may be at another node.
FAR_SECONDS = 0.03
# How long clients may take to say who waits inside them, and how many are asked at once.
LOCAL_SECONDS = 0.1
AT_ONCE = 16
# So many are asked in a look that is repeated. A client in which some waited is asked before others
# that were asked up to so many seconds earlier.
ASKED_MAX = 64
BUSY_SECONDS = 10.0
# How much one says of them.
ANSWER_BYTES_MAX = 32_768
ROWS_MAX = 100


class Row(NamedTuple):
    """A thread or task of a cohort."""

    lock: str  # the key of the lock
    info: str  # as ``describe`` made it
    seconds: float  # for which it has held it, or waited
    holds: bool  # it has the turn


def answer(port: Engine, channel: bytes, who: bytes, lock: bytes) -> None:
    """Answer who waits in the cohorts of this client."""
    most = ROWS_MAX
    while len(text := pack(rows(port, lock, most))) > ANSWER_BYTES_MAX:
        most //= 2
    port.run_in_background(ANSWER, (lock,), (channel, b"%b %b" % (who, text), b"inside"))


def rows(port: Engine, lock: bytes, most: int = ROWS_MAX) -> list[Row]:
    """Return who has the turn and who waits in cohorts; that of a lock first.

    A lone first turn is left out: the server knows it. Those for which there is no room are counted
    in the last row of their lock.
    """
    found: list[Row] = []
    with port.mutex:
        tenures = [one for one in port.lines.cohorts.values() if isinstance(one, Tenure)]
        lines = [line for line in tenures if line.waiting or line.turns > 1]
        lines.sort(key=lambda line: line.terms.keys.lock != lock)
        for at, line in enumerate(lines[: most // 2], 1):
            key, now = _text(line.terms.keys.lock), port.now()
            if (turn := line.turn()) is not None:
                who, since = turn
                found.append(Row(key, _text(who.own_info), max(0.0, now - since), holds=True))
            # Each lock after this one has two rows at least.
            room = max(1, most - len(found) - 2 * (min(len(lines), most // 2) - at))
            waiting = [(one.info, now - one.arrived_at) for one in line.waiting]
            if len(waiting) > room:
                info, waited = waiting[room - 1]
                waiting[room - 1] = counting(info, len(waiting) - room), waited
            found += [Row(key, _text(info), waited, holds=False) for info, waited in waiting[:room]]
    return found


def pack(found: Sequence[Row]) -> bytes:
    """Return rows as text."""
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()


def unpack(text: bytes) -> list[Row] | None:
    """Return the rows that a text says; None when it says none: any program may send it."""
    if len(text) > ANSWER_BYTES_MAX:
        return None
    try:
        found = [Row(*each) for each in json.loads(text)]
        fit = all(
            [type(word) for word in row] == [str, str, float, bool] and 0 <= row.seconds < inf
            for row in found
        )
    except (ValueError, TypeError, RecursionError):
        return None
    return found if fit and len(found) <= ROWS_MAX else None


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


# -- asking ----------------------------------------------------------------------------------------


# When, by our clock, a client said what of itself; without rows it did not answer.
Said = tuple[float, Sequence[Row]]


async def local_rows(
    port: Engine, clients: Mapping[bytes, LockKeys], until: float, known: dict[bytes, Said]
) -> Mapping[bytes, Sequence[Row]]:
    """Return who waits inside the clients of these channels, each asked about one lock first.

    ``known`` has what they said in earlier looks, and gets what they say now. If there is any, no
    more than some clients are asked, and what the others said before still counts.
    """
    most = ASKED_MAX if known else len(clients)
    for gone in known.keys() - clients.keys():
        del known[gone]
    if port.client_channel in clients:
        known[port.client_channel] = port.now(), rows(port, clients[port.client_channel].lock)
    others = sorted(clients.keys() - {port.client_channel}, key=lambda each: _rank(known.get(each)))
    del others[most:]
    for at in range(0, len(others), AT_ONCE):
        if port.now() < until:
            some = others[at : at + AT_ONCE]
            asks = [(clients[each], partial(_who_waits, each, clients[each])) for each in some]
            answers = await answered(port, asks, LOCAL_SECONDS, far=FAR_SECONDS)
            for client_channel, waiter in zip(some, answers, strict=True):
                known[client_channel] = port.now(), unpack(waiter.said) or ()
    now = port.now()
    return {
        client_channel: [row._replace(seconds=row.seconds + now - at) for row in said]
        for client_channel, (at, said) in known.items()
    }


def _rank(said: Said | None) -> float:
    """Return which client is asked first: the one that spoke longest ago, or never."""
    if said is None:
        return -inf
    at, found = said
    return at - (BUSY_SECONDS if found else 0.0)


def _who_waits(client_channel: bytes, keys: LockKeys, waiter: Seat) -> Call:
    about = b"%b %b %b" % (waiter.channel, waiter.id, keys.lock)
    return ANSWER, keys.plain, (client_channel, about, b"inside?")
