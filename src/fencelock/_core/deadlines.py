"""When a lease ends, decided without a clock: every instant comes in as an argument.

Rules of this file (I2):

- A lease counts from the instant *before* its request was sent, never from the answer.
- A handed-over lease counts from the earliest instant at which the grant can have been made.
- The drift allowance is always taken off. Instants are seconds on one monotonic clock.
"""

from __future__ import annotations

from fencelock._runtime.typed import Final
from fencelock.scripts.constants import HEARTBEAT_US, LIVENESS_TIMEOUT_US

# Clock rates of two machines differ by far less than 1 %; 2 ms cover the server's millisecond
# rounding on a short ttl. Both as in the Redlock text.
DRIFT_RATE: Final = 0.01
DRIFT_SECONDS: Final = 0.002

# A handoff starts with a short lease, so that a frozen process cannot stop the line for a ttl.
HANDOFF_TTL_SECONDS: Final = 2.0

# Renewals of leases of one length come in so many bunches a lease.
BATCHES: Final = 60
# How many of these pass from one renewal of a lease to the next, at least.
PARTS: Final = 18

# Work that outlasts this is worth a command: a handed-over lease then grows to its full length.
GROW_SECONDS: Final = 0.25

# A client sends a heartbeat for its waiters this often; see LIVENESS_TIMEOUT_US of the scripts.
HEARTBEAT_SECONDS: Final = HEARTBEAT_US / 1e6
LIVENESS_TIMEOUT_SECONDS: Final = LIVENESS_TIMEOUT_US / 1e6
# While the line moves, heartbeats are rarer, but often enough that the waiter counts as alive.
HEARTBEAT_SECONDS_MAX: Final = 4.0

# A connection that was used before may be dead without notice. When it is silent for so long,
# another one is tried; one that was opened for the request gets all the time there is.
SILENT_SECONDS: Final = 1.0

# A connection that only listens, and is quiet, is asked whether it is alive: first after so long,
# then this often, while a lease may last for longer without another sign (I8). It is given up when
# no answer has come for so long.
QUIET_SECONDS: Final = 2.0
PING_SECONDS: Final = 5.0
PONG_SECONDS: Final = 1.5

# Other programs do not announce a release: the first waiter polls this often.
FOREIGN_SECONDS: Final = 0.05
FOREIGN_LATER_SECONDS: Final = 1.0


def validity(ttl: float) -> float:
    """Return how much of a lease of ``ttl`` seconds its holder may rely on."""
    return ttl - ttl * DRIFT_RATE - DRIFT_SECONDS


def handoff_deadline(
    asked_at: float, answered_us: int, granted_us: int, lease: float, now: float
) -> float:
    """Return the deadline of a lease that was granted later than it was asked for.

    ``answered_us`` is the server's time in the answer to a request sent at ``asked_at``, and
    ``granted_us`` its time at the grant. The server's clock then stood at ``answered_us`` not
    before ``asked_at``, so the grant was not made before ``asked_at`` plus the server's span,
    shortened by drift. A server clock that jumped cannot push the start beyond ``now``.
    """
    span = (granted_us - answered_us) / 1e6
    start = asked_at + max(0.0, span * (1 - DRIFT_RATE))
    return min(start, now) + validity(lease)


def renewal_delay(lease: float, jitter: float) -> float:
    """Return how long after its start a lease is renewed: a third, a little less at random.

    A third leaves two more tries (Redisson's and etcd's choice too); ``jitter`` in [0, 1) takes
    off up to a tenth, so that leases that began together are not renewed together for ever.
    """
    return lease / 3 * (1 - jitter / 10)


def align_to_batch(when: float, lease: float) -> float:
    """Return an instant not after ``when`` that other renewals fall on too.

    Renewals of leases of one length then come in bunches, sixty a lease, and share commands.
    """
    step = max(lease, 0.001) / BATCHES
    return when - when % step


def align_to_part(when: float, lease: float, part: int) -> float:
    """Return an instant not after ``when`` on which all renewals of one part fall.

    Leases of one length and one part are renewed together, whenever they began: once each of
    PARTS bunches, which is the shortest interval that a renewal may have. So no jitter separates
    them, and the first renewal of each comes early.
    """
    step = max(lease, 0.001) / BATCHES
    number = when // step
    return (number - (number - part) % PARTS) * step


def retry_delay(attempt: int, jitter: float) -> float:
    """Return the pause before the next try: none at first, then doubling from 10 ms to 500 ms."""
    if attempt == 0:
        return 0.0
    return min(0.5, 0.01 * 2.0 ** min(attempt - 1, 10)) * (0.5 + jitter / 2)
