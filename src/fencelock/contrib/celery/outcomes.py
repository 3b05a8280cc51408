"""How an exclusive task can end without a result. Every result backend can store these.

Celery stores the arguments of an exception and makes it anew from them, perhaps in a process that
has no fencelock. So the arguments are a text and a dict of plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fencelock.errors import LeaseLost, NotAcquired

if TYPE_CHECKING:  # Celery has no types
    _Skip = Exception
else:
    from celery.exceptions import Ignore, TaskRevokedError

    class _Skip(Ignore, TaskRevokedError):
        """Ends a run without a success, and stands for it in the result backend."""


class _ForHolder(Exception):
    """Ends a run because another one holds the lock; its arguments are a text and the holder."""

    def __init__(self, message: str, holder: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.holder: dict[str, Any] = dict(holder or {})
        self.args: tuple[Any, ...] = (message, self.holder)

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class TaskBusy(_ForHolder, NotAcquired):
    """Another run holds the lock of this task.

    ``holder`` says which, as far as the server knows: ``host``, ``pid``, ``unit`` (its thread),
    ``task_id``, ``label``, ``held_for`` and ``remaining`` (seconds of its lease). It is empty if
    the lock was released at that moment.
    """


class TaskSkipped(_ForHolder, _Skip):
    """This run was skipped, as another one holds the lock; its state is REVOKED, never SUCCESS.

    ``AsyncResult.get()`` raises it. ``holder`` is that of ``TaskBusy``.
    """


class TaskLeaseLost(LeaseLost):
    """The lease of a running task was lost; it is raised inside the task, so that it stops.

    ``name``, ``fence``, ``reason``, ``detail`` and ``since`` are those of ``LeaseLost``.
    """

    def __init__(self, message: str, loss: Mapping[str, Any] | None = None) -> None:
        fields = {"name": "", "fence": 0, "reason": "expired", "since": 0.0, **(loss or {})}
        super().__init__(**fields)
        self.args: tuple[Any, ...] = (message, fields)

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


def as_task_error(error: LeaseLost) -> TaskLeaseLost:
    """Return a loss in the form that a result backend can store."""
    if isinstance(error, TaskLeaseLost):
        return TaskLeaseLost(*error.args)
    fields = ("name", "fence", "reason", "since", "detail", "server")
    return TaskLeaseLost(str(error), {each: getattr(error, each) for each in fields})
