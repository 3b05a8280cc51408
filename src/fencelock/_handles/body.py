"""The bodies of ``with`` of a handle, until they end.

Rules of this file:

- A body is known by the frame that began it. The frame of a generator's ``with`` is the same at
  both ends, whichever thread or task runs it.
- Only the number of a frame is kept, with its code and the instruction: a frame would keep all
  locals of its callers alive. A number may come again when its frame has ended. So another thread
  or task matches only where a function can go on there, and the same instruction never does: the
  two ends of a ``with`` are two.
- The search for a body changes nothing. A body is taken out once its hold is being released.
- CPython looks for signals as a function starts, at an instruction before its first line, which no
  ``try`` in it covers. A signal that came in a short body is handled right there: in a loop of
  ``with lock: pass`` a third of all Ctrl-C came as ``__exit__`` began, and left the lock held. So
  that ``try`` is moved; see ``from_first_instruction``.
- A child has none of its parent's bodies. Where it leaves one, nothing is released.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import CodeType, FrameType, FunctionType

from fencelock._core.lock.hold import joined
from fencelock._runtime import process
from fencelock._runtime.log import log
from fencelock._runtime.typed import Any, Final, TypeVar
from fencelock.errors import FencelockError, LeaseLost

Function = TypeVar("Function", bound=Callable[..., Any])

# Flags of ``inspect``, which loads for long.
GENERATORS: Final = 0x20 | 0x200  # also asynchronous ones
RESUMED: Final = GENERATORS | 0x80  # and coroutines

# Python's tables of exceptions have a form that we know.
KNOWN: Final = (3, 11) <= sys.version_info < (3, 16) and sys.implementation.name == "cpython"
DIGIT, MORE, ENTRY = 0x3F, 0x40, 0x80


class Body:
    """One ``with``, or one ``acquire``: who began it, and what it asked for and holds.

    ``entered`` is the id of what a ``with`` entered; 0 of an ``acquire``. A loss cancels the task
    that runs its body, once: the first of ``tasks`` that has not ended, which is ``task`` then.
    """

    __slots__ = (
        *("at", "attempt", "cancelling", "code", "entered", "frame", "generation", "held"),
        *("roams", "task", "tasks", "unit"),
    )

    cancelling: int  # cancellations that its task had before ours
    frame: int
    code: CodeType | None
    at: int
    roams: bool  # it may end in another thread or task than it began in

    def __init__(self, unit: object, entered: int = 0) -> None:
        self.unit: object = unit
        self.entered: int = entered
        if entered:
            frame = sys._getframe(2)  # noqa: SLF001 - what called ``__enter__``; inspect is slow
            self.frame, self.code, self.at = id(frame), frame.f_code, frame.f_lasti
            generator = bool(frame.f_code.co_flags & GENERATORS)
            self.roams = generator or frame.f_globals.get("__name__") == "contextlib"
        else:
            self.frame, self.code, self.at, self.roams = 0, None, 0, True
        self.generation: int = process.mark[0] or process.notice()
        self.attempt: Any = None
        self.held: Any = None  # None until it holds anything, and once that is taken back
        self.task: Any = None  # that was cancelled because of a loss
        # The tasks that may run it, each with the cancellations that it had when the body began:
        # the one that entered it, which may end with that, and those that waited for that one.
        self.tasks: Sequence[tuple[Any, int]] = ()

    def cancel(self, name: str) -> None:
        """Cancel its task, because the lease of this name is lost."""
        if self.task is not None or not self.tasks:
            return
        for task, cancelling in self.tasks:
            if not task.done():
                self.task, self.cancelling = task, cancelling
                task.cancel(f"lease of {name!r} is lost")
                return
        log.warning("lease of %r is lost, and no known task runs its body: none is cancelled", name)

    def began_in(self, frame: FrameType, unit: object) -> bool:
        """Return True if it began in this frame, which has not ended since."""
        return (
            self.frame == id(frame)
            and self.code is frame.f_code
            and self.at != frame.f_lasti
            and (self.unit == unit or bool(frame.f_code.co_flags & RESUMED))
        )


UNSURE: Final = Body(None)  # stands for a body of which it is unknown whether it ends


def _of_unit(begun: Sequence[Body], frame: FrameType | None, unit: object) -> Body:
    """Return the body that ends, of several of which none began in this frame."""
    mine = [each for each in begun if each.unit == unit]
    if len(mine) > 1:
        running = set()
        while frame is not None:
            running.add((id(frame), frame.f_code))
            frame = frame.f_back
        apart = [each for each in mine if (each.frame, each.code) not in running]
        called = [each for each in apart if not each.code or not each.code.co_flags & GENERATORS]
        mine = called or apart or mine
    return mine[-1] if mine else UNSURE


class Bodies:
    """The open bodies of one handle, oldest first."""

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun: list[Body] = []

    def begin(self, body: Body) -> None:
        """Note that a body begins, with its hold, which the end of the body releases."""
        for each in joined(body.held):
            each.frame = body.frame, body.code
            each.bound = each.bound or not body.roams
        self.begun.append(body)

    def ending(self, entered: int, unit: object) -> Body | None:
        """Return which body of what was entered ends here, in the frame that called ``__exit__``.

        None when none is open, ``UNSURE`` if any may be. The newest that this frame began. Else,
        as for an ``ExitStack``, the newest of its thread or task, where one whose frame still runs
        ends by itself. Else the only one.
        """
        now, open_now = process.mark[0], tuple(self.begun)
        begun = [each for each in open_now if each.entered == entered and each.generation == now]
        if len(begun) <= 1:
            return begun[0] if begun else None
        frame = sys._getframe(2)  # noqa: SLF001 - as above
        for body in reversed(begun):
            if body.began_in(frame, unit):
                return body
        return _of_unit(begun, frame, unit)

    def of_parent(self, unit: object) -> bool:
        """Return True, once for each, if a body that a parent process began may end here."""
        for body in reversed(self.begun):
            theirs = body.generation != process.mark[0]
            if theirs and (body.unit == unit or body.roams):
                self.discard(body)
                return True
        return False

    def discard(self, body: Body) -> None:
        """Take a body out; harmless when that was done."""
        try:
            self.begun.remove(body)
        except ValueError:  # it was done, perhaps by another thread
            return

    def hold(self, body: Body, held: object = None) -> bool:
        """Return True if a body other than this one holds the same, or what is given."""
        held = held or body.held
        return any(each.held is held for each in tuple(self.begun) if each is not body)


def raise_release_error(
    trouble: FencelockError, error: BaseException | None, doing: str, *, stopped: bool = False
) -> None:
    """Raise the error of the release, unless the body raised too: then only log it.

    ``stopped``: the body was cancelled because of the loss, so its own error says less.
    """
    try:
        if error is None:
            raise trouble
        if stopped:
            raise trouble from error
        if not isinstance(error, LeaseLost):  # reported already
            log.warning("%s failed after the body raised: %s", doing, trouble)
    finally:
        del trouble


def from_first_instruction(function: Function) -> Function:
    """Have the ``try`` that is a function's body begin at its first instruction.

    The instructions that a ``try`` covers stand in a table of the code: entries of their start,
    their length, the handler, and what is left on the stack. Each number is in digits of 6 bits,
    the highest first; bit 6 says that another digit follows, and bit 7 that an entry begins.

    Elsewhere than in CPython nothing changes, nor for a coroutine: Ctrl-C cancels its task where it
    waits, and nowhere else.
    """
    if not KNOWN or not isinstance(function, FunctionType):
        return function
    code = function.__code__
    table = code.co_exceptiontable
    if code.co_flags & RESUMED or not table or not table[0] & ENTRY:  # it has another form
        return function
    start, at = _number(table, 0)
    length, at = _number(table, at)
    moved = _digits(0, ENTRY) + _digits(start + length, 0) + table[at:]
    function.__code__ = code.replace(co_exceptiontable=moved)
    return function


def _number(table: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins there, and where the next one does."""
    value = table[at] & DIGIT
    while table[at] & MORE:
        at += 1
        value = value << 6 | table[at] & DIGIT
    return value, at + 1


def _digits(value: int, mark: int) -> bytes:
    """Return a number as it stands in a table."""
    digits = [value & DIGIT]
    while value := value >> 6:
        digits.append(value & DIGIT | MORE)
    digits[-1] |= mark
    return bytes(reversed(digits))
