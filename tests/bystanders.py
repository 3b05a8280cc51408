"""What belongs to the whole process, and so to the tests that run after one."""

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from fencelock._runtime.log import log

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
LOGGERS = ("fencelock", "fencelock.events", "")


def shared_by_all() -> dict[str, object]:
    """Return what a test could change for the tests after it."""
    return {
        "environment": _environment(),
        "folder": _folder(),
        "signals": {each.name: signal.getsignal(each) for each in SIGNALS},
        "loggers": {name: _logger(logging.getLogger(name or None)) for name in LOGGERS},
        "logging": logging.root.manager.disable,
        "prepared log": log.prepare,
        "garbage": (gc.isenabled(), getattr(gc, "get_threshold", tuple)()),
        "switch interval": sys.getswitchinterval(),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
    }


def _environment() -> dict[bytes, bytes]:
    """Return the variables, as the system has them: all tests pass here twice."""
    found: dict[bytes, bytes] = os.environ._data.copy()  # type: ignore[attr-defined]  # decoding costs a tenth of a test
    found.pop(b"PYTEST_CURRENT_TEST", None)
    return found


def _folder() -> str:
    with contextlib.suppress(FileNotFoundError):
        return str(Path.cwd())
    return "none"


def _logger(logger: logging.Logger) -> tuple[object, ...]:
    handlers = [each for each in logger.handlers if not type(each).__module__.startswith("_pytest")]
    return logger.level, logger.propagate, logger.disabled, handlers, list(logger.filters)
