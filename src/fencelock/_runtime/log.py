"""The library's log: the logger ``fencelock`` of ``logging``, imported with the first record.

Most processes never write a record, and the command line starts faster without ``logging``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logging import Logger
else:
    Logger = object


def _no_record(*_: object) -> None:
    """Write nothing."""


class LateLogger(Logger):
    """Forwards everything to the real logger, after calling ``prepare`` with it."""

    def __init__(self) -> None:
        self.prepare: Callable[[Logger], object] = lambda _: None

    def __getattr__(self, name: str, _ending: Callable[[], bool] = sys.is_finalizing) -> Any:
        """Return the real logger's attribute, so that a record names the line that wrote it.

        While the interpreter is torn down nothing can be imported: there is no record then.
        """
        if _ending():
            return _no_record
        import logging  # noqa: PLC0415 - see above

        logger = logging.getLogger("fencelock")
        self.prepare(logger)
        return getattr(logger, name)


log: LateLogger = LateLogger()

NAMED_MAX = 10  # in one line


def listed(names: Iterable[str]) -> str:
    """Return names for a log line: the first ten, and how many more there are."""
    each = sorted(names)
    more = f" and {len(each) - NAMED_MAX} more" if len(each) > NAMED_MAX else ""
    return ", ".join(map(repr, each[:NAMED_MAX])) + more
