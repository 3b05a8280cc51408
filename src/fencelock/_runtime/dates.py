"""The types of ``datetime``, taken from its part in C: they are the same.

Python 3.11 first defines all of them in Python, and a command of the shell would wait for that.
"""

from __future__ import annotations

from fencelock._runtime.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import UTC, datetime, timedelta
else:
    try:
        from _datetime import datetime, timedelta, timezone
    except ImportError:  # a Python that was built without
        from datetime import datetime, timedelta, timezone

    UTC = timezone.utc  # noqa: UP017 - ``UTC`` is a name of the module in Python

__all__ = ["UTC", "datetime", "timedelta"]
