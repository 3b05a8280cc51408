"""The library's log: the logger ``fencelock`` of ``logging``, imported with the first record.

Most processes never write a record, and the command line starts faster without ``logging``.

What a filter, a handler or a record factory of the program raises ends nothing here (I16): its
first traceback goes to stderr, as that of a handler does. Code logs last all the same: what is
more than an ``Exception``, such as Ctrl-C, goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from fencelock._runtime.typed import TYPE_CHECKING, Any

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
        self._failed = False  # a record could not be written

    def __getattr__(self, name: str, _ending: Callable[[], bool] = sys.is_finalizing) -> Any:
        """Return what calls the real logger's method of this name.

        While the interpreter is torn down nothing can be imported: there is no record then.
        """
        return _no_record if _ending() else partial(self._write, name)

    def _write(self, method: str, *args: Any, **more: Any) -> None:
        """Write a record, which names the line that asked for it."""
        try:
            import logging  # noqa: PLC0415 - see above

            logger = logging.getLogger("fencelock")
            self.prepare(logger)
            getattr(logger, method)(*args, stacklevel=2, **more)
        except Exception:  # noqa: BLE001 - of the program's logging; or no file can be opened
            with suppress(Exception):
                import traceback  # noqa: PLC0415 - see above

                if not self._failed:
                    traceback.print_exc()
                self._failed = True


log: LateLogger = LateLogger()

NAMED_MAX = 10  # in one line


def listed(names: Iterable[str]) -> str:
    """Return names for a log line: the first ten, and how many more there are."""
    each = sorted(names)
    more = f" and {len(each) - NAMED_MAX} more" if len(each) > NAMED_MAX else ""
    return ", ".join(map(repr, each[:NAMED_MAX])) + more
