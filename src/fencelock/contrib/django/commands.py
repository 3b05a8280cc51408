"""``django_command_lock``: one run of a management command at a time, on all hosts."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, Literal, TypeVar

from django.core.management.base import BaseCommand, CommandError

from fencelock import options
from fencelock._handles.decorator import is_the_same_everywhere
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
            def body() -> Any:
                return plain(self, *args, **given)

            named = filled_in(template, given)
            return run_locked(self, named, body, busy=busy, timeout=limit, ttl=length)

        command.handle = handle
        return command

    return decorate


def filled_in(template: str, given: Mapping[str, Any]) -> str:
    """Return a name with its fields filled in by a command's options."""
    for _, field, _, _ in string.Formatter().parse(template):
        word = (field or "").partition(".")[0].partition("[")[0]
        if field is not None and word not in given:
            known = ", ".join(sorted(given))
            raise CommandError(f"lock {template!r}: {{{field}}} is no option; it has: {known}")
        if field is not None and not is_the_same_everywhere(given[word], str(given[word])):
            raise CommandError(f"lock {template!r}: {{{field}}} prints differently in each process")
    return options.lock_name(template.format_map(given))


def run_locked(
    command: Any,
    name: str,
    body: Callable[[], Any],
    *,
    busy: str = "wait",
    timeout: float | None = None,
    ttl: float | None = None,
) -> Any:
    """Run a command's body under a lock, or end as its terms say."""
    interrupt, began = LossInterrupt(), False

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
