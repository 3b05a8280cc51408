"""Take a lock by the plain form: ``SET NX PX`` and a compare-and-delete, nothing else.

Rules of this file:

- Only the lock's own key is touched; there is no order of arrival and no fence.
- ``SET NX`` is not idempotent: when its answer is lost, the key is released before another try.
- Nothing is taken before a client's first release was answered: without ``EVALSHA`` it could not be
  renewed or released.
- Whatever ends a try without a lease releases the key (I9).
"""

from __future__ import annotations

from fencelock._core.deadlines import validity
from fencelock._core.lock.acknowledge import confirm
from fencelock._core.lock.acquire import start_over
from fencelock._core.lock.attempt import Attempt, Grant
from fencelock._core.lock.release import release_call
from fencelock._core.lock.terms import milliseconds, too_late
from fencelock._core.port import Port
from fencelock._core.retry import answer_by, persist
from fencelock._core.seat import Seat
from fencelock._core.types import Reply
from fencelock.scripts import POLL_RELEASE


async def poll_once(port: Port, attempt: Attempt, give_up_at: float) -> Grant | None:
    """Try the plain form once: SET NX PX on the lock's key, nothing else.

    SET NX is not idempotent: when its answer is lost, the key is released before another try.
    """
    until = answer_by(port, port.now(), give_up_at)
    attempt.start()
    attempt.began = attempt.sent = False  # what is known of one try is of no later one
    attempt.undo_connection, attempt.asks = None, attempt

    async def once() -> tuple[float, Reply]:
        if attempt.undo_connection is not None:
            start_over(port, attempt)
        await port.open(attempt, until, listen=False)
        attempt.begin()
        if attempt.sent:
            await port.call(*release_call(attempt), until, attempt)
        if not port.lines.releases:  # a ServerError unless this client may release what it takes
            # Of an id that holds nothing: a late copy must not release what this try took.
            await port.call(POLL_RELEASE, attempt.keys.plain, (port.new_id(),), until, attempt)
            port.lines.releases = True
        asked_at = port.now()
        lasting = milliseconds(attempt.lasting(asked_at))
        command = (b"SET", attempt.keys.lock, attempt.holder_id, b"NX", b"PX", lasting)
        reply = await port.command(command, attempt.keys.lock, until, attempt)
        if reply is not None:
            await confirm(port, attempt, asked_at + validity(attempt.ttl), give_up_at)
        return asked_at, reply

    asked_at, reply = await persist(port, once, until, attempt)
    port.close(attempt)
    if reply is None:
        attempt.asks = None
        return None
    grant = Grant(0, asked_at + validity(attempt.ttl), attempt.ttl)
    if grant.deadline > port.now():
        return grant
    raise too_late(attempt.ttl)


async def poll(port: Port, attempt: Attempt, tries: int | None = None) -> Grant | None:
    """Retry until the lock is free; None at ``give_up_at`` or after ``max_tries``.

    The pause varies by a quarter, so that pollers that started together do not stay together.
    """
    left = attempt.terms.options.max_tries if tries is None else tries
    give_up_at = attempt.give_up_at
    while True:
        grant = await poll_once(port, attempt, give_up_at)
        if grant is not None:
            return grant
        left = None if left is None else left - 1
        if left != 0:
            if attempt.event is not None:
                attempt.event.must_wait()
            again_at = port.now() + attempt.terms.options.interval * (0.875 + port.jitter() / 4)
            await port.sleep(min(again_at, give_up_at))
        if left == 0 or port.now() >= give_up_at:
            break
    # Raise WRONGTYPE for a key of another kind: SET NX says nil for that, too.
    key, until = attempt.keys.lock, answer_by(port, port.now(), port.now())
    await persist(port, lambda: port.command((b"GET", key), key, until), until, Seat())
    return None
