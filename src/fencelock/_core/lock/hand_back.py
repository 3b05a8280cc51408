"""Give back all that a client holds: it is closed, or its process is about to end.

Rules of this file:

- A holder is notified of the loss before the release is sent (I8), and nothing renews its lease any
  more (I11): from then on another client may be granted the lock.
- The latest grant is given back first: of locks taken one inside the other, the inner one.
- It ends at an instant, whatever the servers do (I13). What no server confirmed by then is named in
  the log, and ends by its ttl.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock._core.deadlines import retry_delay
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.release import release_call, retire
from fencelock._core.lock.renew import lose
from fencelock._core.port import Port
from fencelock._runtime.log import listed, log
from fencelock.scripts import ELECTION_ANNOUNCE

# How many releases are sent before the time is looked at again.
AT_ONCE = 50


async def give_back_all(port: Port, until: float) -> bool:
    """Give back every lease by an instant; return True if the servers confirmed each.

    Never raises a server's error. The client must be closed for new requests.
    """
    left: list[Hold] = []
    while holds := [hold for hold in _latest_first(port) if _cut_off(port, hold)]:
        text = "%d lease(s) were still held and are given back: the client is closed (%s)"
        log.warning(text, len(holds), listed(hold.name for hold in holds))
        try:
            left += await port.hand_back(holds, until)
        except BaseException:  # the loop ends, or Ctrl-C
            for hold in holds:
                port.release_in_background(hold, None)
            raise
        for hold in holds:
            _after(port, hold)
    if left:
        text = "%d lease(s) were not confirmed to be given back in time, and end by their ttl: %s"
        log.warning(text, len(left), listed(hold.name for hold in left))
    return not left


def _latest_first(port: Port) -> list[Hold]:
    """Take all leases out of the schedule, the latest grant first."""
    with port.mutex:
        holds = port.renewals.tracked()
        port.renewals.clear()
    return sorted(holds, key=lambda hold: (hold.granted_at, hold.fence), reverse=True)


def _cut_off(port: Port, hold: Hold) -> bool:
    """End a lease for its holder; False when it had ended, or its turn is another waiter's now."""
    if hold.forked or not lose(port, hold, "closed", port.now()):
        return False
    with port.mutex:
        return not hold.passes


def _after(port: Port, hold: Hold) -> None:
    """Undo what may still come of its requests, and tell those that watch an election."""
    port.clean_up(hold)
    watchers = getattr(hold.terms.keys, "watchers", None)  # of an election
    if watchers is not None:
        port.run_in_background(ELECTION_ANNOUNCE, watchers, ())


async def hand_back(port: Port, holds: Sequence[Hold], until: float) -> Sequence[Hold]:
    """Release leases that have ended for their holders; return those without an answer in time."""
    for hold in holds:
        retire(port, hold)
    left, tries = holds, 0
    while left and port.now() < until:
        if tries:
            await port.sleep(min(until, port.now() + retry_delay(tries, port.jitter())))
        left = await _ask_once(port, left, until)
        tries += 1
    return left


async def _ask_once(port: Port, holds: Sequence[Hold], until: float) -> list[Hold]:
    """Send each release once while there is time; return those without an answer."""
    left: list[Hold] = []
    for first in range(0, len(holds), AT_ONCE):
        some = holds[first : first + AT_ONCE]
        if port.now() >= until:
            return [*left, *holds[first:]]
        requests = [release_call(hold, hold.fence) for hold in some]
        replies = await port.side_by_side(requests, until)
        pairs = zip(some, replies, strict=True)
        left += [hold for hold, reply in pairs if isinstance(reply, Exception)]
    return left
