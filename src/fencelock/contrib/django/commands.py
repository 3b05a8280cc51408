"""``django_command_lock``: one run of a management command at a time, on all hosts."""

from __future__ import annotations

import asyncio
import string
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final, Literal, TypeVar

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand, CommandError

from fencelock import options
from fencelock._handles.decorator import filled
from fencelock._operator import loss_of
from fencelock.blocking.lease import Lease
from fencelock.contrib.django.clients import client
from fencelock.contrib.interruption import LossInterrupt
from fencelock.errors import LeaseLost, NotAcquired
from fencelock.options import Seconds

CommandT = TypeVar("CommandT", bound=type[Any])

# The exit statuses of ``fencelock run``, for the same reasons.
BUSY_STATUS: Final = 75
LOST_STATUS: Final = 76


def django_command_lock(
    name: str | None = None,
    *,
    busy: Literal["raise", "skip", "wait"] = "raise",
    timeout: Seconds | None = None,
    ttl: Seconds | None = None,
) -> Callable[[CommandT], CommandT]:
    """Decorate a management command so that one run works at a time; sends nothing.

    Its ``handle`` may be ``async def``, which Django by itself does not run.

    ``name`` is the lock's name, ``"command:"`` and the command's name by default. Fields are filled
    by the command's options: ``"import:{account}"``. ``busy`` says what a second run does:
    ``"raise"`` fails with CommandError and exit status 75, ``"skip"`` says so on its standard error
    and ends with status 0, ``"wait"`` waits in line, for ``timeout`` seconds (None: for ever), and
    then fails. A loss of the lease stops the command, with exit status 76. ``ttl`` is how long a
    killed run blocks the next one, the client's by default.

    Raises:
        TypeError, ValueError: it decorates something else, or an option cannot work.
    """
    if not (name is None or isinstance(name, str)):
        raise TypeError('write @django_command_lock() or @django_command_lock("name")')
    if busy not in {"raise", "skip", "wait"}:
        raise ValueError(f'busy must be "raise", "skip" or "wait", not {busy!r}')
    if timeout is not None and busy != "wait":
        raise ValueError(f"timeout needs busy='wait': {busy!r} does not wait")
    limit = options.acquire_timeout(timeout, blocking=True) if busy == "wait" else 0.0
    length = None if ttl is None else options.lease_ttl(ttl)

    def decorate(command: Any) -> Any:
        fits = isinstance(command, type) and issubclass(command, BaseCommand)
        if not fits:
            raise TypeError(f"it decorates a class derived from BaseCommand, not {command!r}")
        template = name or f"command:{command.__module__.rpartition('.')[2]}"
        plain = command.handle

        @wraps(plain)
        def handle(self: Any, *args: Any, **given: Any) -> Any:
            interrupt = TaskInterrupt() if iscoroutinefunction(plain) else None

            def body() -> Any:
                found = plain(self, *args, **given)
                return found if interrupt is None else interrupt.run(found)

            named = filled_in(template, given)
            return run_locked(self, named, body, interrupt, busy=busy, timeout=limit, ttl=length)

        command.handle = handle
        return command

    return decorate


class TaskInterrupt:
    """Runs the coroutine of a command, and cancels it when the lease is lost."""

    def __init__(self) -> None:
        self._cancel: Callable[[], object] | None = None
        self._error: LeaseLost | None = None

    def lost(self, error: LeaseLost) -> None:
        """Take note of the loss, and cancel the coroutine; called by another thread."""
        self._error, cancel = error, self._cancel
        if cancel is not None:
            with suppress(RuntimeError):  # its loop has just ended
                cancel()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run the coroutine in a loop; raise the loss if that cancelled it."""

        async def main() -> Any:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)  # type: ignore[union-attr]  # this is a task
            if self._error is not None:
                self._cancel()
            return await coroutine

        try:
            return async_to_sync(main)()
        except asyncio.CancelledError:
            if self._error is None:
                raise
            try:
                raise self._error from None
            finally:
                del self

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End: nothing is cancelled from here on."""
        self._cancel = None


def filled_in(template: str, given: Mapping[str, Any]) -> str:
    """Return a name with its fields filled in by a command's options."""
    for _, field, _, _ in string.Formatter().parse(template):
        word = (field or "").partition(".")[0].partition("[")[0]
        if field is not None and word not in given:
            known = ", ".join(sorted(given))
            raise CommandError(f"lock {template!r}: {{{field}}} is no option; it has: {known}")
    try:
        return options.lock_name(filled(template, given))
    except TypeError as error:
        raise CommandError(f"lock {template!r}: {error}") from error


def run_locked(
    command: Any,
    name: str,
    body: Callable[[], Any],
    interrupt: Any = None,
    *,
    busy: str = "wait",
    timeout: float | None = None,
    ttl: float | None = None,
) -> Any:
    """Run a command's body under a lock, or end as its terms say."""
    interrupt, began = interrupt or LossInterrupt(), False

    def lost(lease: Lease) -> None:
        interrupt.lost(loss_of(lease))

    label = f"manage.py {type(command).__module__.rpartition('.')[2]}"
    held = client().lock(name, ttl=ttl, timeout=timeout, label=label, on_lost=lost)
    try:
        with held:
            began = True
            with interrupt:
                return body()
    except NotAcquired:
        if began:
            raise
    except LeaseLost as error:
        if not began or error.name != name:
            raise
        raise CommandError(f"stopped: {error}", returncode=LOST_STATUS) from error
    text, who = f"{name!r} is held", client().status(name, waiters=1).holder
    if who is not None:  # else it is free by now
        label = f" ({who.label})" if who.label else ""
        text += f" by {who.host}:{who.pid}{label} for {who.held_for:.0f} s"
    if busy != "skip":
        raise CommandError(text, returncode=BUSY_STATUS)
    command.stderr.write(f"skipped: {text}")
    return None
