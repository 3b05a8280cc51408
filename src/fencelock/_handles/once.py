"""The outcome of ``once``, and the form of its result: bytes as they are, all else as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from fencelock._core.lock.hold import Hold
from fencelock._core.lock.terms import Terms
from fencelock._core.objects.once import FinishedOnce, question
from fencelock._handles.handle import Caller, Holds, describe
from fencelock._runtime.hints import made_by_clients
from fencelock.errors import AcquireTimeout

if TYPE_CHECKING:
    from fencelock._core.engine import Engine
    from fencelock.status import HolderStatus

# Every waiter and every late host reads it: store larger data elsewhere, and its key here.
RESULT_BYTES_MAX: Final = 65536
BYTES, JSON, NOTHING = "bytes", "json", "nothing"

T_co = TypeVar("T_co", covariant=True)


class OnceHolds(Holds):
    """The hold of a run; its entry in the line says that it waits for a result."""

    __slots__ = ()

    def attempt(self, port: Engine, caller: Caller) -> Hold:
        """Return a fresh attempt by a thread or task."""
        terms = self.new_terms(Terms, port, question=question(self.keys))
        # What ``show`` prints, and the mark that ``once_finish.lua`` looks for.
        info = describe(caller, self.options.label)[:-1] + b',"once":1}'
        return self.attempt_on(terms, port, caller, info)

    def timed_out(self, attempt: Hold) -> AcquireTimeout:
        """Return the error for a wait that ended before the run, and who was at that."""
        name, timeout = self.keys.name, self.options.timeout
        text = f"{name!r} was not done within its timeout of {timeout:g} s"
        return AcquireTimeout(text, **self.about_wait(attempt.held_by))


class Outcome(Generic[T_co]):
    """The outcome of one call of ``once``.

    ``ran`` is True if this call ran the function; ``done`` is True if it has been run, here or
    elsewhere, and False while another process runs it. ``fence`` is the run's fencing token. ``by``
    is the host and process that ran it or runs it now; empty if this call ran it, or if that
    process is unknown. ``started`` and ``ended`` are the server's Unix time of a run elsewhere, in
    seconds; ``ended`` is 0 while it runs.
    """

    __slots__ = ("_form", "_value", "by", "done", "ended", "fence", "name", "ran", "started")

    @made_by_clients
    def __init__(
        self,
        name: str,
        done: FinishedOnce | None,
        *,
        ran: bool = False,
        running: HolderStatus | None = None,
    ) -> None:
        known = done or running
        self.name: str = name
        self.ran: bool = ran
        self.done: bool = done is not None
        self.fence: int = known.fence if known else 0
        self.by: str = done.who if done else f"{running.host}:{running.pid}" if running else ""
        self.started: float = done.started if done else running.since if running else 0.0
        self.ended: float = done.ended if done else 0.0
        self._form = done.form if done else NOTHING
        self._value = done.value if done else b""

    @property
    def value(self) -> T_co:
        """Return what the function returned: bytes, or what JSON makes of it.

        The same in every process, also in the one that ran it.

        Raises:
            LookupError: it is not done yet, or its result could not be kept.
        """
        if not self.done:
            raise LookupError(f"{self.name!r} has no result: it was not run, or is being run now")
        if self._form == NOTHING:
            raise LookupError(f"the result of {self.name!r} could not be stored")
        value: Any = self._value if self._form == BYTES else json.loads(self._value)
        return value  # type: ignore[no-any-return]  # as the function returned it, by way of JSON

    def __repr__(self) -> str:
        """Show the outcome, without the value."""
        state = "ran" if self.ran else "done" if self.done else "not done"
        if self.by and not self.done:
            state = f"being run by {self.by}"
        return f"<Outcome of {self.name!r}: {state}>"


def encoded(name: str, value: Any) -> tuple[str, bytes]:
    """Return a result's form and bytes; TypeError or ValueError when it cannot be kept."""
    if isinstance(value, bytes):
        form, data = BYTES, value
    else:
        try:
            text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(
                f"{name!r} was run, but its result cannot be stored: {error}; return bytes,"
                " None, or a value that JSON can represent"
            ) from error
        form, data = JSON, text.encode()
    if len(data) > RESULT_BYTES_MAX:
        raise ValueError(
            f"{name!r} was run, but its result of {len(data)} bytes cannot be stored: at most"
            f" {RESULT_BYTES_MAX}"
        )
    return form, data
