"""Options that several commands have, durations, and help with an example."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace

from fencelock import options
from fencelock._runtime.typed import Any, Final
from fencelock.cli import COMMANDS
from fencelock.cli.exits import BadValueError
from fencelock.cli.output import human

# In this order an ending is looked for.
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
Arguments = Any  # a namespace, whose attributes have no types anyway


class Option:
    """An option or a word of a command, with what argparse learns of it."""

    __slots__ = ("dest", "flag", "group", "names", "plain", "spec")

    def __init__(self, names: Sequence[str], group: int, spec: dict[str, Any]) -> None:
        self.names: Sequence[str] = names
        self.group: int = group  # of those with one number only one may be given; 0: of none
        self.spec: dict[str, Any] = spec
        self.dest: str = names[-1].lstrip("-").replace("-", "_")  # what its value is called
        self.flag: bool = spec.get("action") == "store_true"  # it takes no value
        self.plain: bool = self.flag or "action" not in spec  # given once, or the last one counts

    @property
    def place(self) -> bool:
        """Return True if it is known by its place among the words, such as the name of a lock."""
        return not self.names[0].startswith("-")

    @property
    def required(self) -> bool:
        """Return True if a command line must have it."""
        return bool(self.spec.get("required", self.place and "nargs" not in self.spec))

    @property
    def default(self) -> Any:
        """Return its value when it is not given."""
        return self.spec.get("default", False if self.flag else None)

    def value(self, text: str) -> Any:
        """Return the value of a text; raises ValueError when it is none."""
        value = self.spec.get("type", str)(text)
        if value not in self.spec.get("choices", (value,)):
            raise BadValueError(text)
        return value


class Parser:
    """The options of a command, with what every command has.

    What is wrong with a command line, and its help, is for argparse, which learns of each option
    what stands here: it loads for long, and few command lines need it.
    """

    def __init__(self, command: str, *, example: str, summary: str = "", more: str = "") -> None:
        summary = summary or COMMANDS[command]
        self.prog: str = f"fencelock {command}"
        self.usage: str | None = None
        self.description: str = f"{summary[:1].upper()}{summary[1:]}."
        self.description += f" {more}." if more else ""
        self.epilog: str = f"example:\n  {example}"
        self.options: list[Option] = []
        self.groups: int = 0
        self.add("--json", "print JSON")

    def group(self) -> int:
        """Return the number of a new group of options of which only one may be given."""
        self.groups += 1
        return self.groups

    def add(self, words: str, text: str, *, among: int = 0, **more: Any) -> None:
        """Add an option as its help shows it, such as ``"-w --wait DUR"``; without a value, a flag.

        A DUR is read as a duration, and ``{a,b}`` are the words to choose from. ``among`` is the
        ``group`` of the option.
        """
        *names, value = words.split()
        if value.startswith("-"):
            names, more = [*names, value], {"action": "store_true"} | more
        elif value.startswith("{"):
            more["choices"] = value.strip("{}").split(",")
        else:
            more = {"metavar": value, "type": duration if value == "DUR" else str} | more
        self.options.append(Option(names, among, {"help": text} | more))

    def full(self) -> Any:
        """Return the argparse.ArgumentParser of these options."""
        from fencelock.cli.argparsing import ArgumentParser

        options = [(each.names, each.group, each.spec) for each in self.options]
        return ArgumentParser(self.prog, self.usage, self.description, self.epilog, options)

    def parse_with_server(self, argv: list[str]) -> Any:
        """Add which server holds the locks, as the last options, and parse."""
        add_server(self)
        return self.parse_args(argv)

    def parse_args(self, argv: Sequence[str]) -> Any:
        """Parse, unless only the parser itself is wanted; see ``described``."""
        if _wanted:
            raise _Made(self)
        return self.read(argv) or self.full().parse_args(argv)

    def read(self, argv: Sequence[str]) -> Any:
        """Return what plain words say: ``--option VALUE``, ``--flag`` and names; else None."""
        options = {name: each for each in self.options for name in each.names}
        places = [each for each in self.options if each.place]
        given = {each.dest: each.default for each in self.options}
        wanted = {each.dest for each in self.options if each.required}
        words, groups = iter(argv), {0}
        for word in words:
            named = word.startswith("-")
            option = options.get(word) if named else places.pop(0) if places else None
            if option is None or not option.plain or (option.group and option.group in groups):
                return None
            text = next(words, "-") if named and not option.flag else word
            if text.startswith("-") and not option.flag:
                return None
            try:
                given[option.dest] = option.flag or option.value(text)
            except ValueError:
                return None
            groups.add(option.group)
            wanted.discard(option.dest)
        return None if wanted else SimpleNamespace(**given)


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
    how_long = made.group()
    made.add("-w --wait DUR", "wait at most this long (default: no limit)", among=how_long)
    made.add("-n --no-wait", "do not wait at all", among=how_long)


def add_busy_exit(made: Parser, meaning: str, default: int | None = None) -> None:
    """Add the exit status of a command that did not get what it waited for."""
    status = whole("an exit status: 0 to 255", 0, 255)
    made.add("-E --busy-exit N", meaning, type=status, default=default)


def add_quiet(made: Parser) -> None:
    """Add -q."""
    made.add("-q --quiet", "print errors only")


def one_try(args: Arguments) -> bool:
    """Return True if the command does not wait at all, however slowly the server answers."""
    return bool(args.no_wait or args.wait == 0)


def waiting(args: Arguments) -> dict[str, Any]:
    """Return the options of ``acquire`` that say how long to wait."""
    return {"blocking": False} if one_try(args) else {"timeout": args.wait}


def within(args: Arguments) -> str:
    """Return the end of "… was not granted": how long the command waited, or nothing."""
    return "" if one_try(args) or args.wait is None else f" within {human(args.wait)}"


def add_label(made: Parser) -> None:
    """Add the label that people see with host and process."""
    made.add("--label TEXT", "shown with the process (default: your user name)")


def duration(text: str) -> float:
    """Return the seconds of ``90``, ``1.5s``, ``500ms``, ``2m``, ``1h`` or ``1d``."""
    said = text.strip()
    unit = next(each for each in _UNITS if said.endswith(each))
    number = said.removesuffix(unit)
    whole, point, part = number.partition(".")
    if not (whole + part).isdecimal() or (point and not part):
        raise BadValueError(f"{text!r} is not a duration: write 90, 1.5s, 500ms, 2m, 1h or 1d")
    seconds = float(number) * _UNITS[unit]
    if seconds > options.TTL_MAX:
        raise BadValueError(f"{text!r} is more than ten years")
    return seconds


def positive_duration(text: str) -> float:
    """Return the seconds of a duration above zero."""
    seconds = duration(text)
    if not seconds:
        raise BadValueError(f"{text!r}: it must be above zero")
    return seconds


def whole(what: str, least: int, most: float = float("inf")) -> Callable[[str], int]:
    """Return what reads a whole number within bounds; ``what`` says them to people."""

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise BadValueError(f"{text!r} is not {what}")
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
