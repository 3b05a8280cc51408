"""Take a lock by the plain form: ``SET NX PX`` and a compare-and-delete, nothing else.

Rules of this file:

- Only the lock's own key is touched; there is no order of arrival and no fence.
- ``SET NX`` is not idempotent: when its answer is lost, the key is released before another try.
- Nothing is taken before a client's first release was answered: without ``EVALSHA`` it could not be
  renewed or released.
- Whatever ends a try without a lease releases the key (I9).
"""

from __future__ import annotations

from fencelock._core.attempt_log import AttemptLog
from fencelock._core.deadlines import validity
from fencelock._core.lock.hold import Grant
from fencelock._core.lock.request import AcquireRequest, milliseconds, too_late
from fencelock._core.lock.waiter import Waiter
from fencelock._core.port import Port
from fencelock._core.retry import answer_by, persist
from fencelock._core.types import Reply
from fencelock.scripts import POLL_RELEASE


async def poll_once(port: Port, request: AcquireRequest, give_up_at: float) -> Grant | None:
    """Try the plain form once: SET NX PX on the lock's key, nothing else.

    SET NX is not idempotent: when its answer is lost, the key is released before another try.
    """
    until = answer_by(port, port.now(), give_up_at)
    waiter = Waiter(request)

    def undo() -> None:
        if waiter.began:
            port.run_in_background(POLL_RELEASE, request.keys.plain, (request.holder,), waiter.path)

    async def once() -> tuple[float, Reply]:
        # a silent connection may still deliver it: continue with another id
        if waiter.undo_connection is not None:
            undo()
            port.close(waiter)
            request.rename()
        await port.open(waiter, until, listen=False)
        waiter.begin()
        if waiter.sent:
            await port.call(POLL_RELEASE, request.keys.plain, (request.holder,), until, waiter)
        await _may_release(port, request, until, waiter)
        asked_at = port.now()
        lasting = milliseconds(request.lasting(asked_at))
        command = (b"SET", request.keys.lock, request.holder, b"NX", b"PX", lasting)
        reply = await port.command(command, request.keys.lock, until, waiter)
        if reply is not None:
            await port.flows.confirm(port, waiter, asked_at + validity(request.ttl), give_up_at)
        return asked_at, reply

    try:
        asked_at, reply = await persist(port, once, until, waiter)
        if reply is None:
            return None
        grant = Grant(0, asked_at + validity(request.ttl), request.ttl)
        if grant.deadline > port.now():
            return grant
        raise too_late(request)
    except BaseException:
        undo()
        raise
    finally:
        port.close(waiter)


async def _may_release(port: Port, request: AcquireRequest, until: float, waiter: Waiter) -> None:
    """Raise a ServerError unless this client may release what it takes; asked once.

    The release is of an id that holds nothing: a late copy must not release what this request took.
    """
    if not port.lines.releases:
        await port.call(POLL_RELEASE, request.keys.plain, (port.new_id(),), until, waiter)
        port.lines.releases = True


async def poll(
    port: Port, request: AcquireRequest, give_up_at: float, tries: int | None = None
) -> Grant | None:
    """Retry until the lock is free; None at ``give_up_at`` or after ``max_tries``.

    The pause varies by a quarter, so that pollers that started together do not stay together.
    """
    left = request.options.max_tries if tries is None else tries
    while True:
        grant = await poll_once(port, request, give_up_at)
        if grant is not None:
            return grant
        left = None if left is None else left - 1
        if left != 0:
            if request.acquisition is not None:
                request.acquisition.must_wait()
            again_at = port.now() + request.options.interval * (0.875 + port.jitter() / 4)
            await port.sleep(min(again_at, give_up_at))
        if left == 0 or port.now() >= give_up_at:
            await _refuse_other_kinds(port, request)
            return None


async def _refuse_other_kinds(port: Port, request: AcquireRequest) -> None:
    """Raise WRONGTYPE for a key of another kind: SET NX says nil for that, too."""
    key, until = request.keys.lock, answer_by(port, port.now(), port.now())
    await persist(port, lambda: port.command((b"GET", key), key, until), until, AttemptLog())
