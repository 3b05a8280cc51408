"""Options that several commands have, durations, and help with an example."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from fencelock import options
from fencelock.cli import COMMANDS
from fencelock.cli.exits import UsageError
from fencelock.cli.output import columns, human

_UNITS: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = r"(\d+(?:\.\d+)?|\.\d+)(ms|s|m|h|d|)"  # compiled when it is first used


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help of the terminal's width; argparse would import shutil for it even without --help."""

    def __init__(self, prog: str) -> None:
        chosen = os.environ.get("COLUMNS", "")
        width = int(chosen) if chosen.isdecimal() else 0
        super().__init__(prog, width=(width or columns(1)) - 2)

    if sys.version_info[:2] == (3, 14):  # there it would import dataclasses and inspect

        def _set_color(self, _color: object) -> None:
            self._theme, self._decolor = _NoColors(), str


class _NoColors:
    """A theme of argparse without colours."""

    def __getattr__(self, _role: str) -> str:
        return ""


class Parser(argparse.ArgumentParser):
    """The parser of a command, with what every command has.

    It raises its complaints as a UsageError, so that they are printed like all other errors.
    """

    def __init__(self, command: str, *, example: str, summary: str = "", more: str = "") -> None:
        summary = summary or COMMANDS[command]
        super().__init__(
            prog=f"fencelock {command}",
            description=f"{summary[:1].upper()}{summary[1:]}." + (f" {more}." if more else ""),
            epilog=f"example:\n  {example}",
            formatter_class=_Help,
            allow_abbrev=False,
        )
        self.add("--json", "print JSON")

    def add(self, words: str, text: str, *, among: Any = None, **more: Any) -> None:
        """Add an option as its help shows it, such as ``"-w --wait DUR"``; without a value, a flag.

        A DUR is read as a duration, and ``{a,b}`` are the words to choose from. ``among`` is a
        group of options of which only one may be given.
        """
        *names, value = words.split()
        if value.startswith("-"):
            names, more = [*names, value], {"action": "store_true"} | more
        elif value.startswith("{"):
            more["choices"] = value.strip("{}").split(",")
        else:
            more = {"metavar": value, "type": duration if value == "DUR" else str} | more
        (among or self).add_argument(*names, help=text, **more)

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError that names the help, or the option that was probably meant."""
        from difflib import get_close_matches

        words = message.partition("unrecognized arguments: ")[2]
        given = words.split(" ")[0].partition("=")[0]
        known = self._option_string_actions if given.startswith("-") else ()
        hint = did_you_mean(get_close_matches(given, known, n=1)) or f"{self.prog} --help"
        raise UsageError(message, hint=hint)

    def print_help(self, file: Any = None) -> None:
        """Print the help, and raise what hinders it: argparse ignores that."""
        print(self.format_help(), end="", file=file)

    def parse_with_server(self, argv: list[str]) -> Any:
        """Add which server holds the locks, as the last options, and parse."""
        add_server(self)
        return self.parse_args(argv)

    def parse_args(self, *args: Any, **more: Any) -> Any:
        """Parse, unless only the parser itself is wanted; see ``described``."""
        if _wanted:
            raise _Made(self)
        return super().parse_args(*args, **more)


class _Made(Exception):
    """Carries a command's parser out of the command."""

    def __init__(self, made: Parser) -> None:
        super().__init__()
        self.made = made


_wanted: list[bool] = []  # not empty while a command is run for its parser only


def described(command: Callable[[], object]) -> Parser:
    """Return the parser that a command makes; the command goes no further than that."""
    _wanted.append(True)
    try:
        command()
    except _Made as made:
        return made.made
    finally:
        _wanted.pop()
    raise AssertionError("a command without a parser")


def did_you_mean(near: Sequence[str]) -> str:
    """Return the question whether one of these was meant; nothing without any."""
    return f"did you mean {' or '.join(near)}?" if near else ""


def add_server(made: Parser) -> None:
    """Add which server holds the locks, and their prefix."""
    url = (
        "the server: redis://, valkey://, rediss://, unix://, redis+sentinel:// or"
        " redis+cluster://; three or more for a quorum (default: FENCELOCK_URL, else the"
        " embedded server)"
    )
    made.add("--url URL", url)
    prefix = "prefix of every key, may be empty (default: %(default)s)"
    made.add("--prefix TEXT", prefix, default=options.KEY_PREFIX)
    made.add("-v --verbose", "print more messages on stderr")


def add_name(made: Parser) -> None:
    """Add the lock's name."""
    made.add("name NAME", "the name of the lock")


def add_ttl(made: Parser, *, renewed: bool) -> None:
    """Add the length of the lease."""
    manner = "renewed while CMD runs" if renewed else "not renewed automatically"
    text = f"length of the lease, {manner} (default: {options.TTL:g}s)"
    made.add("--ttl DUR", text, default=options.TTL)


def add_wait(made: Parser) -> None:
    """Add how long to wait for the lock; see ``waiting``."""
    how_long = made.add_mutually_exclusive_group()
    made.add("-w --wait DUR", "wait at most this long (default: no limit)", among=how_long)
    made.add("-n --no-wait", "do not wait at all", among=how_long)


def add_busy_exit(made: Parser, meaning: str, default: int | None = None) -> None:
    """Add the exit status of a command that did not get what it waited for."""
    status = whole("an exit status: 0 to 255", 0, 255)
    made.add("-E --busy-exit N", meaning, type=status, default=default)


def add_quiet(made: Parser) -> None:
    """Add -q."""
    made.add("-q --quiet", "print errors only")


def one_try(args: argparse.Namespace) -> bool:
    """Return True if the command does not wait at all, however slowly the server answers."""
    return bool(args.no_wait or args.wait == 0)


def waiting(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of ``acquire`` that say how long to wait."""
    return {"blocking": False} if one_try(args) else {"timeout": args.wait}


def within(args: argparse.Namespace) -> str:
    """Return the end of "… was not granted": how long the command waited, or nothing."""
    return "" if one_try(args) or args.wait is None else f" within {human(args.wait)}"


def add_label(made: Parser) -> None:
    """Add the label that people see with host and process."""
    made.add("--label TEXT", "shown with the process (default: your user name)")


def duration(text: str) -> float:
    """Return the seconds of ``90``, ``1.5s``, ``500ms``, ``2m``, ``1h`` or ``1d``."""
    match = re.fullmatch(_DURATION, text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a duration: write 90, 1.5s, 500ms, 2m, 1h or 1d"
        )
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > options.TTL_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is more than ten years")
    return seconds


def positive_duration(text: str) -> float:
    """Return the seconds of a duration above zero."""
    seconds = duration(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r}: it must be above zero")
    return seconds


def whole(what: str, least: int, most: float = float("inf")) -> Callable[[str], int]:
    """Return what reads a whole number within bounds; ``what`` says them to people."""

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return int(text)

    return read


def add_holder(made: Parser) -> None:
    """Add the id that proves the tenure."""
    known = os.environ.get("FENCELOCK_HOLDER")
    text = "the holder id that `fencelock acquire` printed (default: FENCELOCK_HOLDER)"
    made.add("--holder ID", text, default=known, required=not known)


def with_holder(argv: list[str]) -> list[str]:
    """Return the words with ``--holder ID`` in one: one id in 64 begins with a dash."""
    if "--holder" not in argv[:-1]:
        return argv
    at = argv.index("--holder")
    return [*argv[:at], f"--holder={argv[at + 1]}", *argv[at + 2 :]]


Arguments = Any  # an argparse.Namespace, whose attributes have no types anyway
