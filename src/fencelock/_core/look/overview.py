"""Show many locks again and again, without a SCAN each time: for screens that refresh themselves.

Which locks there are is known from the index, a sorted set to which clients with a history add what
was just waited for or renewed. A SCAN now and then finds the locks of all other clients.
"""

from __future__ import annotations

from math import inf

from fencelock._core.keys import LockKeys
from fencelock._core.look import LISTED
from fencelock._core.look.clients import Said
from fencelock._core.look.show import Looker, matches
from fencelock._runtime.log import log
from fencelock.errors import ServerDenied
from fencelock.status import LockStatus

# How often all keys are looked through, in seconds.
SCAN_SECONDS = 30.0
# While there are few locks and a SCAN is quick, it is repeated sooner: it takes a hundredth of the
# time at most.
SOON_SECONDS = 2.0
FEW_LOCKS = 200
SCAN_SHARE = 0.01
# So many locks are shown at most, and so many noted names read at a time.
LOCKS_MAX = 10_000
# How far back the index is read again: the clocks of a quorum's nodes may differ by less.
AGAIN_US = 5_000_000


class Overview:
    """The locks that match, as often as they are asked for.

    A refresh is one command for the index, one for every 500 locks, and a message to each client
    that holds or waits, to 64 of them at most, which says who waits inside it. ``scan_every`` is
    how often it also looks through all keys, in seconds, or sooner where that costs little; None:
    never.
    """

    def __init__(
        self,
        match: str = "*",
        *,
        waiters: int = LISTED,
        scan_every: float | None = SCAN_SECONDS,
    ) -> None:
        self._match = match
        self._waiters = waiters
        self._scan_every = SCAN_SECONDS if scan_every is None else scan_every
        self._scan_at = inf if scan_every is None else -inf
        self._noted_us = 0.0  # when the newest noted name was noted, by the server's clock
        self._names: set[str] = set()
        self._told: dict[bytes, Said] = {}  # by the channel of a client

    async def refresh(self, looker: Looker) -> list[LockStatus]:
        """Return the locks that are held or waited for, by name; raises as ``show`` does.

        A lease that its client may keep while it is idle counts as held: asking would take time.
        """
        (port, prefix), since_us = looker, self._noted_us - AGAIN_US
        each = await looker.on_each("", lambda at: at.noted(since_us, LOCKS_MAX))
        self._noted_us = max([self._noted_us, *(newest for newest, _ in each)])
        self._names |= {name for _, noted in each for name in noted if matches(name, self._match)}
        begun = port.now()
        if begun >= self._scan_at:
            try:
                self._names.update(await looker.names(self._match))
                self._scan_at = begun + self._pause(port.now() - begun)
            except ServerDenied as error:
                log.warning("locks of clients without a history are not found: %s", error)
                self._scan_at = inf
        keys = [LockKeys(prefix, name) for name in sorted(self._names)[:LOCKS_MAX]]
        shown = await looker.show_all(keys, self._waiters, asks=False, known=self._told)
        active = [status for status in shown if status.active]
        self._names = {status.name for status in active}
        return active

    def _pause(self, took: float) -> float:
        """Return the time from the beginning of a SCAN, which took so long, to the next one."""
        if len(self._names) >= FEW_LOCKS:
            return self._scan_every
        return min(self._scan_every, max(SOON_SECONDS, took / SCAN_SHARE))
