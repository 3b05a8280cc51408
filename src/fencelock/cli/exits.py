"""Exit statuses: the one place where errors are given their numbers and hints.

They are those of sysexits.h where it has one, so that the usual exit statuses of a command that
runs under ``fencelock run`` are not taken for them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable

from fencelock import errors
from fencelock._runtime.typed import Final, NoReturn
from fencelock.errors import FencelockError

USAGE: Final = 64
UNREACHABLE: Final = 69
INTERNAL: Final = 70
UNWRITTEN: Final = 74
BUSY: Final = 75
LOST: Final = 76
DENIED: Final = 77
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
SIGNALLED: Final = 128
_PIPE: Final = SIGNALLED + 13
_DISK_TROUBLE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

DOCTOR: Final = "`fencelock doctor` shows what is wrong"


class UsageError(Exception):
    """The command line cannot be understood."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class BadValueError(ValueError):
    """A word of the command line is not what is wanted there."""


class Interrupted(BaseException):
    """A signal ended a wait. Not an Exception: nothing but the exit may handle it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


# The first type that fits counts. A ValueError is a bad argument or setting, as everywhere in
# fencelock.
_STATUSES: Final[tuple[tuple[type[BaseException], int, str], ...]] = (
    (UsageError, USAGE, ""),
    (errors.NotAcquired, BUSY, "`fencelock show NAME` shows the holder"),
    (errors.LeaseLost, LOST, ""),
    (errors.NotHeld, LOST, ""),
    (errors.ServerDenied, DENIED, ""),
    (errors.ServerUnreachable, UNREACHABLE, DOCTOR),
    (errors.NotAcknowledged, UNREACHABLE, "the master has too few replicas that keep up"),
    (errors.ServerReadOnly, UNREACHABLE, DOCTOR),
    (errors.ServerError, UNREACHABLE, DOCTOR),
    (errors.OutcomeUnknown, UNREACHABLE, DOCTOR),
    (errors.QuorumNotReached, UNREACHABLE, DOCTOR),
    (FencelockError, INTERNAL, ""),
    (ValueError, USAGE, ""),
)


_SHOW: Final = "`fencelock show` shows what the name is used for"
# An error code says more than the type of the error.
_BY_CODE: Final = {
    "NOAUTH": "redis://user:password@host:6379/0",
    "WRONGPASS": "redis://user:password@host:6379/0",
    "NOPERM": "`fencelock doctor` prints the permissions that are needed",
    "WRONGTYPE": _SHOW,
    "OTHERLAYOUT": "docs/reference/versions.md says how to upgrade",
    "OTHERLIMIT": _SHOW,
    "OVERLIMIT": _SHOW,
}


def status_of(error: BaseException) -> int:
    """Return the exit status that an error means."""
    return next((status for kind, status, _ in _STATUSES if isinstance(error, kind)), INTERNAL)


def hint_for(error: BaseException) -> str:
    """Return advice about an error; empty if there is none."""
    if isinstance(error, UsageError):
        return error.hint
    if "\n" in str(error):  # it brings its own advice
        return ""
    if isinstance(error, errors.ServerUnsuitable) and not error.code:  # likewise
        return ""
    hint = _BY_CODE.get(getattr(error, "code", ""))
    if hint is None:
        hint = next((hint for kind, _, hint in _STATUSES if isinstance(error, kind)), "")
    name = getattr(error, "name", "")
    if not name or not name.isprintable():  # what could move a terminal's cursor stays unknown
        return hint
    from shlex import quote

    return hint.replace("NAME", quote(name))


def report(error: BaseException) -> int:
    """Print an error and its hint, and return its exit status."""
    from fencelock.cli.output import to_stderr

    hint = hint_for(error)
    to_stderr(f"fencelock: {error}\n" + (f"hint: {hint}\n" if hint else ""))
    return status_of(error)


def run(command: Callable[[], int]) -> int:
    """Run a command and return its exit status, also for what it raises."""
    try:
        try:
            status = command()
        except SystemExit as end:  # of argparse, after the help
            status = int(end.code or 0)
        sys.stdout.flush()
        return status
    except (FencelockError, UsageError, ValueError) as error:
        return report(error)
    except Interrupted as stop:
        return SIGNALLED + stop.number
    except KeyboardInterrupt:
        return SIGNALLED + 2
    except BrokenPipeError:
        _drop_output()  # its reader has ended
        return _PIPE
    except Exception as error:  # noqa: BLE001 - any other error is a defect: show it
        from fencelock.cli.output import say, to_stderr

        if isinstance(error, OSError) and error.errno in _DISK_TROUBLE:
            _drop_output()
            say(f"cannot write: {error.strerror}")
            return UNWRITTEN
        import traceback

        defect = "fencelock: this is a defect of fencelock: please report it\n"
        to_stderr(traceback.format_exc() + defect)
        return INTERNAL


def _drop_output() -> None:
    """Let the rest of the output go nowhere: the interpreter must not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def end(status: int) -> NoReturn:
    """End this process at once.

    The interpreter's own end would crash now and then, when a background thread is inside OpenSSL.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
