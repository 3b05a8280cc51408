"""The wire format, RESP2 and RESP3: the one place that packs commands and parses replies.

Light to import: it needs hiredis and nothing of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import hiredis

INCOMPLETE: Final = object()
Push: Final = hiredis.PushNotification
# hiredis' stub allows one element; the function takes any number.
_pack: Final[Callable[[tuple[bytes, ...]], bytes]] = hiredis.pack_command  # type: ignore[assignment]  # see above


_BYTES: Final = {bytes}


class ReplyError(Exception):
    """An error reply, as the parser returns it."""


def reader() -> Any:
    """Return a parser that yields bytes, ``Push``, ``ReplyError`` or ``INCOMPLETE``.

    Bytes that are no RESP raise ConnectionError.
    """
    return hiredis.Reader(
        replyError=ReplyError, protocolError=ConnectionError, notEnoughData=INCOMPLETE
    )


def pack(args: Sequence[bytes | int]) -> bytes:
    """Return a command in wire form.

    hiredis gets bytes only: to turn a number into text it may run a signal handler, and does not
    survive an exception of that.
    """
    if set(map(type, args)) == _BYTES:  # a renewal has many hundred
        return _pack(tuple(args))  # type: ignore[arg-type]  # they are bytes
    return _pack(tuple([b"%d" % each if isinstance(each, int) else each for each in args]))
