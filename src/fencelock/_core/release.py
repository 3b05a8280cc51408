"""Give a lock back.

Rules of this file:

- Renewal ends before the release is asked for (I11).
- A release whose answer was lost is asked again. "Not the holder" then means that the first one
  ran, as long as the lease was proved when it was first sent (I4).
- Only the ids of the acquisition are used: nobody else's grant can be freed.
"""

from __future__ import annotations

from dataclasses import replace

from fencelock._core.ask import Asked, ask
from fencelock._core.hold import Hold, Want
from fencelock._core.inspect import held_ids
from fencelock._core.port import Args, Keys, Port, Reply
from fencelock.errors import ServerError, ServerUnreachable
from fencelock.scripts import GIVE_BACK, RELEASE, Script

# Of release.lua: the owner holds, but this acquisition of it was released already.
ELSEWHERE = -2


async def release(port: Port, hold: Hold) -> int:
    """Release and return how many holds of an explicit owner are left.

    Raises LeaseLost when the lease had ended before, and OutcomeUnknown or ServerUnreachable when
    no answer came: then it is repeated in the background; the lease ends by itself at the latest.
    """
    script, keys, args = request(hold.want)
    lease = hold.lease
    tended = lease._port or port
    with tended.mutex():
        tended.book.discard(hold)
    if lease.lost:
        if hold.open and not lease._forked():
            port.post(script, keys, args)
        hold.open = False
        lease._bind(None, None)
        raise lease._lost_error()
    hold.open = False
    lease._bind(None, None)
    asked = Asked()
    try:
        reply = await ask(port, script, keys, args, port.now() + port.patience, asked=asked)
    except BaseException as error:
        if not isinstance(error, ServerError) or isinstance(error, ServerUnreachable):
            port.post(script, keys, args, asked.trail)
        raise
    if hold.want.owned and reply[0] == ELSEWHERE and not asked.sent:
        left = await release_for_owner(port, hold.want)
        if left is not None:
            lease._released = True
            return left
    return _judge(hold, reply, repeated=asked.sent)


async def release_for_owner(port: Port, want: Want) -> int | None:
    """Release one hold of an explicit owner, whichever handle acquired it.

    Returns how many are left, or None when the owner holds nothing. Raises like ``ask``.
    """
    until = port.now() + port.patience
    for waiter in await held_ids(port, want.keys):
        script, keys, args = request(replace(want, waiter=waiter))
        verdict, extra = await ask(port, script, keys, args, until)
        if verdict >= 0:
            return int(extra)
        if verdict != ELSEWHERE:
            break
    return None


def request(want: Want) -> tuple[Script, Keys, Args]:
    """Return the request that gives back what ``want`` was granted."""
    if want.plain:
        return GIVE_BACK, want.keys.plain, (want.holder,)
    return (
        RELEASE,
        want.keys.all,
        (want.waiter, want.holder, b"1" if want.owned else b"0", want.home),
    )


def _judge(hold: Hold, reply: Reply, *, repeated: bool) -> int:
    verdict, extra = (reply or -1, b"") if hold.want.plain else reply
    if verdict < 0 and not repeated:
        revoked = verdict == -1 and bool(extra)
        detail = extra.decode() if revoked else ""
        hold.lease._lose("revoked" if revoked else "taken", hold.lease.deadline, detail)
        raise hold.lease._lost_error()
    hold.lease._released = True
    return extra if isinstance(extra, int) else 0
