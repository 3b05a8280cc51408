"""A command line by ``argparse``: its help, what is wrong with it, and what few people write.

It loads for as long as a tenth of the rest of a command takes, so ``arguments.py`` asks it only for
what that does not read itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from fencelock.cli.exits import BadValueError, UsageError
from fencelock.cli.output import columns, did_you_mean


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


class ArgumentParser(argparse.ArgumentParser):
    """The parser of a command.

    It raises its complaints as a UsageError, so that they are printed like all other errors.
    """

    def __init__(
        self,
        prog: str,
        usage: str | None,
        description: str,
        epilog: str,
        options: Iterable[tuple[Sequence[str], int, dict[str, Any]]],
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=_Help,
            allow_abbrev=False,
        )
        groups: dict[int, Any] = {0: self}
        for names, number, spec in options:
            if number not in groups:
                groups[number] = self.add_mutually_exclusive_group()
            read = {"type": _reading(spec["type"])} if "type" in spec else {}
            groups[number].add_argument(*names, **spec | read)

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


def _reading(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return what reads a value, and raises its complaint as argparse wants it."""

    def converted(text: str) -> Any:
        try:
            return read(text)
        except BadValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return converted
