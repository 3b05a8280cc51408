"""What fencelock uses of hiredis, in Python: for PyPy, and where the GIL is off.

hiredis has no wheel for PyPy, and its import turns the GIL on. The names are those of hiredis, so
that ``wire.py`` can take one or the other.

Rules of this file:

- A message that has not come whole is continued, never parsed again: many small pieces cost no more
  than one.
- What a server could send to use up memory is refused: a line, a string, a nesting without bounds.
- Attributes are left out: no command of ours asks for any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

LINE_MAX: Final = 65536
STRING_MAX: Final = 512 << 20  # as long as a server lets a value be
ITEMS_MAX: Final = (1 << 32) - 1
DEPTH_MAX: Final = 32
# What was parsed is dropped from the buffer once it is so long.
_SPENT: Final = 65536
_WORDS: Final = {b"t": True, b"f": False}
_AGGREGATES: Final = frozenset(b"*%~>|")
_STRINGS: Final = frozenset(b"$=!")


class PushNotification(list[Any]):
    """A message that answers no request."""


class _Open:
    """An aggregate of which some items are still to come."""

    __slots__ = ("items", "kind", "missing")

    def __init__(self, kind: int, missing: int) -> None:
        self.kind = kind
        self.missing = missing
        self.items: list[Any] = []

    def value(self) -> Any:
        """Return what it is once all items have come."""
        if self.kind == ord(">"):
            return PushNotification(self.items)
        if self.kind == ord("%"):
            return dict(zip(self.items[::2], self.items[1::2], strict=True))
        return self.items


class Reader:
    """A parser of RESP2 and RESP3 that is fed with what came, in any pieces."""

    def __init__(
        self,
        *,
        protocolError: Callable[[str], Exception],  # noqa: N803 - as hiredis calls it
        replyError: Callable[[str], Exception],  # noqa: N803 - as above
        notEnoughData: object,  # noqa: N803 - as above
    ) -> None:
        self._foreign = protocolError
        self._refusal = replyError
        self._incomplete = notEnoughData
        self._buffer = bytearray()
        self._at = 0
        self._open: list[_Open] = []

    def feed(self, data: Any, start: int = 0, length: int = -1) -> None:
        """Take what came, or a part of it."""
        if length >= 0:
            data = memoryview(data)[start : start + length]
        self._buffer += data

    def gets(self) -> Any:
        """Return the next message; ``notEnoughData`` until it has come whole.

        After a ``protocolError`` nothing more can be read.
        """
        outer = self._open
        while True:
            value = self._next()
            if value is self._incomplete:
                return value
            if type(value) is _Open:
                if value.missing:
                    outer.append(value)
                    if len(outer) > DEPTH_MAX:
                        raise self._foreign("Nested too deep")
                    continue
                if value.kind == ord("|"):
                    continue
                value = value.value()
            if not outer or (value := self._inner(value)) is not self._incomplete:
                self._drop()
                return value

    def _inner(self, value: Any) -> Any:
        """Put a value into its aggregate; return the outermost one if it is whole now."""
        while self._open:
            innermost = self._open[-1]
            innermost.items.append(value)
            innermost.missing -= 1
            if innermost.missing:
                return self._incomplete
            self._open.pop()
            if innermost.kind == ord("|"):
                return self._incomplete
            try:
                value = innermost.value()
            except TypeError as error:  # a list as a key
                raise self._foreign(str(error)) from error
        return value

    def _drop(self) -> None:
        """Forget what was parsed, when that costs little."""
        if self._at == len(self._buffer):
            self._buffer.clear()
            self._at = 0
        elif self._at > _SPENT:
            del self._buffer[: self._at]
            self._at = 0

    def _next(self) -> Any:
        """Return the next value, or the head of an aggregate."""
        buffer, start = self._buffer, self._at
        end = buffer.find(b"\r\n", start, start + LINE_MAX)
        if end < 0:
            if len(buffer) - start > LINE_MAX:
                raise self._foreign("Line too long")
            if len(buffer) > start and buffer[start] not in b"+-:$*_#,(=!%~>|":
                raise self._foreign(
                    f'Protocol error, got "{chr(buffer[start])}" as reply type byte'
                )
            return self._incomplete
        kind, line = buffer[start], bytes(buffer[start + 1 : end])
        if kind in _STRINGS:
            return self._string(kind, line, end + 2)
        self._at = end + 2
        if kind == ord(":"):
            return self._number(line, "Bad integer value")
        if kind in _AGGREGATES:
            count = self._number(line, "Bad multi-bulk length")
            if not -1 <= count <= ITEMS_MAX:
                raise self._foreign("Multi-bulk length out of range")
            if count < 0:
                return None
            return _Open(kind, count * 2 if kind in b"%|" else count)
        return self._simple(kind, line)

    def _string(self, kind: int, line: bytes, begin: int) -> Any:
        """Return a string of a known length; the cursor moves once all of it is there."""
        length = self._number(line, "Bad bulk string length")
        if not -1 <= length <= STRING_MAX:
            raise self._foreign("Bulk string length out of range")
        if length < 0:
            self._at = begin
            return None
        if len(self._buffer) < begin + length + 2:
            return self._incomplete
        self._at = begin + length + 2
        text = bytes(self._buffer[begin : begin + length])
        if kind == ord("!"):
            return self._refusal(text.decode(errors="replace"))
        if kind == ord("="):
            if text[3:4] != b":":
                raise self._foreign("Bad verbatim string")
            return text[4:]
        return text

    def _simple(self, kind: int, line: bytes) -> Any:
        """Return what a line is that is all of a value."""
        if kind == ord("+"):
            if b"\r" in line or b"\n" in line:
                raise self._foreign("Bad simple string value")
            return line
        if kind == ord("-"):
            return self._refusal(line.decode(errors="replace"))
        if kind == ord("_") and not line:
            return None
        if kind == ord("#") and line in _WORDS:
            return _WORDS[line]
        if kind == ord("(") and line.removeprefix(b"-").isdigit():
            return line
        if kind == ord(","):
            return self._double(line)
        raise self._foreign(f'Protocol error, got "{chr(kind)}" as reply type byte')

    def _double(self, line: bytes) -> float:
        try:
            return float(line)
        except ValueError:
            raise self._foreign("Bad double value") from None

    def _number(self, line: bytes, otherwise: str) -> int:
        if not line.removeprefix(b"-").isdigit():
            raise self._foreign(otherwise)
        return int(line)


def pack_command(args: Sequence[bytes]) -> bytes:
    """Return a command in wire form."""
    return b"*%d\r\n" % len(args) + b"".join(
        [b"$%d\r\n%b\r\n" % (len(each), each) for each in args]
    )
