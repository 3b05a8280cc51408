"""Celery: tasks that exclude each other, and a beat on every host that schedules on one.

``exclusive`` decorates tasks, ``LeadingScheduler`` is a scheduler for ``celery beat``.
"""

from __future__ import annotations

try:
    import celery as _celery  # noqa: F401 - to say clearly what is missing
except ImportError as _error:
    raise ImportError(
        "fencelock.contrib.celery needs Celery 5.3 or newer: install the extra 'celery'"
    ) from _error

from fencelock.contrib.celery.beat import LeadingScheduler, leading
from fencelock.contrib.celery.exclusive import current_lease, exclusive
from fencelock.contrib.celery.outcomes import TaskBusy, TaskLeaseLost, TaskSkipped

__all__ = [
    "LeadingScheduler",
    "TaskBusy",
    "TaskLeaseLost",
    "TaskSkipped",
    "current_lease",
    "exclusive",
    "leading",
]
