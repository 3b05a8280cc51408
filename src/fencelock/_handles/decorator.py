"""The options of decorators, for threads and asyncio alike.

Apart from ``templates``, which takes long to import and is needed for decorated functions only.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fencelock import options
from fencelock._handles.handle import lease_options
from fencelock.errors import NotAcquired
from fencelock.options import LeaseOptions, Seconds

# Of each decorated function, for names that come again.
HANDLES_KEPT: Final = 256


def decorated_options(given: LeaseOptions, on_busy: str, name: str, **chosen: Any) -> LeaseOptions:
    """Check the options of ``locked``; its name is the template of events, if it can be one."""
    if on_busy not in {"wait", "skip", "raise"}:
        raise ValueError(f'on_busy must be "wait", "skip" or "raise", not {on_busy!r}')
    if chosen.get("template") is None and name.isprintable():
        chosen["template"] = name[: options.TEMPLATE_CHARS_MAX] or None
    made = lease_options(given, **chosen)
    if on_busy == "wait":
        return made
    if made.timeout is not None:
        raise ValueError(f"timeout needs on_busy='wait': {on_busy!r} does not wait")
    return made._replace(timeout=options.NO_WAIT)


def nested_call_error(name: str, server: str) -> NotAcquired:
    """Return the error for a call that would wait for its own lock."""
    text = f"already locked: {name!r} is held by a call around this one"
    return NotAcquired(text, name=name, server=server)


class RunningCalls:
    """The mark of a call whose body runs; a call from within it finds the mark and keeps it.

    ``clear`` takes back only what this call's own ``put`` has put there: the call around it is
    still under way.
    """

    __slots__ = ("_calls", "_me", "_own")

    def __init__(self, calls: set[tuple[object, ...]], me: tuple[object, ...]) -> None:
        self._calls = calls
        self._me = me
        self._own = False

    @property
    def found(self) -> bool:
        """Return True while this call, or one around it, is under way."""
        return self._me in self._calls

    def put(self) -> None:
        """Note that the body runs."""
        if self._me not in self._calls:
            self._own = True
            self._calls.add(self._me)

    def clear(self) -> None:
        """Note that the body has ended."""
        if self._own:
            self._calls.discard(self._me)


class OnceSettings(NamedTuple):
    """The options of ``once`` apart from the lock's."""

    within: float
    wait: bool
    lease: str | None
    under_way: set[tuple[object, ...]]  # calls of the client's that would wait for themselves


def once_settings(
    given: LeaseOptions,
    under_way: set[tuple[object, ...]],
    *,
    within: Seconds,
    wait: bool,
    lease: str | None,
    timeout: Seconds | None = None,
    **chosen: Any,
) -> tuple[LeaseOptions, OnceSettings]:
    """Check the options of ``once``."""
    if not isinstance(wait, bool):  # a lock's own ``wait`` takes a Queue
        raise TypeError(f"wait of once must be a bool, not {wait!r}")
    run_settings = OnceSettings(options.positive("within", within), wait, lease, under_way)
    if run_settings.within > options.TTL_MAX:
        raise ValueError(f"within must be at most {options.TTL_MAX:.0f} s (ten years)")
    if timeout is not None and not wait:
        raise ValueError("timeout needs wait=True: without it a call does not wait")
    made = lease_options(given, timeout=timeout, cohort=None, kind="once", **chosen)
    return made if wait else made._replace(timeout=options.NO_WAIT), run_settings
