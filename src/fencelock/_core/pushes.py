"""What a pushed message means: a grant, the end of a place or lease, or a state that came about.

Rules of this file:

- Every user that may publish can send anything to any channel. A message is parsed as a whole
  before it has an effect; one that does not parse is ignored, and logged once for each client.
- Messages of a kind that this version does not know are ignored: servers' pings, later versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fencelock._core.deadlock.unit_waits import arrived
from fencelock._core.lock.hold import lose_revoked
from fencelock._core.lock.tenure import asked, recall, revoke
from fencelock._core.seat import Seat
from fencelock._runtime.log import log
from fencelock._runtime.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fencelock._core.engine import Engine
    from fencelock._core.lock.waiting import Lines

Find = Callable[[bytes], "Seat | None"]

# What a published message consists of.
MESSAGE = ("message", "channel", "payload")
# How many words follow the first one, by kind; the last word is all that is left.
WORDS = {b"granted": 4, b"ask": 3, b"recall": 3, b"signal": 3, b"revoked": 2, b"probe": 2}
WORDS |= {b"inside?": 3, b"inside": 2}  # see look/clients.py
# No number of a message has more digits: Python refuses to parse thousands.
DIGITS_MAX = 20
# How much of a message that does not parse is logged.
SHOWN_BYTES = 60


def dispatch(port: Engine, message: Sequence[bytes], find: Find) -> Seat | None:
    """Take a push; return the waiter that it is for, for the port to wake.

    ``find`` returns the waiter of an id, or None when it does not wait (any more).
    """
    if len(message) != len(MESSAGE) or message[0] != b"message":
        return None
    _, channel, payload = message
    pushed = parsed(payload)
    if pushed is None:
        _not_understood(port.lines, channel, payload)
        return None
    kind, words = pushed
    if kind in FOR_WAITERS:
        return _to_waiter(port, kind, words, find)
    if kind in FOR_CLIENTS:
        FOR_CLIENTS[kind](port, *words)
    elif kind == b"signal":
        from fencelock._core.objects.state_wait import signalled  # noqa: PLC0415 - locks hear none

        signalled(port, *words)
    elif kind == b"inside?":
        from fencelock._core.look.clients import answer  # noqa: PLC0415 - as above

        answer(port, *words)
    return None


def parsed(payload: bytes) -> tuple[bytes, Sequence[bytes]] | None:
    """Return a message's kind and words; None when it does not have the form of its kind."""
    kind, _, rest = payload.partition(b" ")
    number = WORDS.get(kind, 1)
    words = rest.split(b" ", number - 1)
    if len(words) != number:
        return None
    fits = True
    if kind == b"granted":
        fits = _are_numbers(words[1:])
    elif kind == b"signal":
        fits = _are_numbers(words[:1]) and words[1].isalpha()
    elif kind == b"inside":
        from fencelock._core.look.clients import unpack as rows_of  # noqa: PLC0415 - for those that look

        fits = rows_of(words[1]) is not None
    elif kind in {b"ask", b"recall", b"revoked", b"inside?", b"probe"}:
        fits = bool(words[0])
    return (kind, words) if fits else None


def _are_numbers(words: Sequence[bytes]) -> bool:
    return all(map(bytes.isdigit, words)) and max(map(len, words)) <= DIGITS_MAX


def _not_understood(lines: Lines, channel: bytes, payload: bytes) -> None:
    """Log the first message of a client that does not parse: a flood of them fills no log."""
    if lines.puzzled:
        return
    lines.puzzled = True
    log.warning(
        "a message on channel %r cannot be parsed; it and others like it are ignored:"
        " %r; does another program publish there?",
        *(channel, payload[:SHOWN_BYTES]),
    )


def _to_waiter(port: Engine, kind: bytes, words: Sequence[bytes], find: Find) -> Seat | None:
    """Tell a waiter of its grant, of its lost place in line, or what it asked a client."""
    who, *words = words
    waiter = find(who)
    if kind == b"granted":
        fence, granted_us, lease_ms = map(int, words)
        if waiter is not None:
            waiter.hear(fence, granted_us, lease_ms)
            return waiter
        with port.mutex:
            undo = port.lines.given_up.pop(who, None)
        if undo is not None:  # a frozen server has granted what was given up
            port.run_in_background(*undo)
    elif waiter is None:
        return None
    elif kind == b"again":
        waiter.lose_place()
    elif kind == b"inside":
        waiter.hear_of_others(*words)
    else:
        waiter.learn(kind)
    return waiter


def revoked(port: Engine, holder: bytes, reason: bytes | None) -> None:
    """Notify the holds that an operator revoked; without a reason, ask their server whether.

    A message that any may have sent gives none. Until it is known, no next turn begins without
    asking, also of a lease that is being renewed: that may have been answered before.
    """
    text = None if reason is None else reason.decode(errors="replace")
    for hold in revoke(port, holder, text):
        lose_revoked(port, hold, text)


# What is for one of a client's waiters: its id is the first word.
FOR_WAITERS: Final = frozenset({b"granted", b"again", b"busy", b"idle", b"inside"})
# What is for the client; each takes the port and the words.
FOR_CLIENTS: Final[Mapping[bytes, Callable[..., None]]] = {
    b"revoked": revoked,
    b"recall": recall,
    b"ask": asked,
    b"probe": arrived,
}
