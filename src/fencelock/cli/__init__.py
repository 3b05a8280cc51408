"""The command line: ``fencelock COMMAND``.

    commands/        one file per command, or per group of commands
    _top/            the screens of ``top``
    run/             ``run``, ``once``, ``elect``: the lock's holder, the command's supervisor
    doctor/          the questions of ``doctor``: a table of them, and how each is answered
    arguments.py     options that several commands have, durations, help with an example
    exits.py         exit statuses: every error gets its number and its hint here
    output.py        tables, JSON and messages; durations for people
    session.py       from --url and --prefix to a client
    os_signals.py    an OS signal ends a wait, or goes to the command that runs
    wait_tree.py     who waits for whom, as a tree
    shown.py         what people see of a lock: a row of a table, and a line while they wait

Rules:

- Data goes to stdout, messages go to stderr.
- A command loads its own file and no other command's, except the variants of ``run``.
- A command uses locks through ``fencelock.Client``, and through ``_operator.py`` what the
  public client does not offer.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable

COMMANDS = {
    "run": "hold a lock while a command runs",
    "once": "run a command on one of many hosts, once a period",
    "elect": "keep a command running on exactly one of many hosts",
    "acquire": "take a lock for a script; prints the holder id",
    "renew": "keep a lock that a script took",
    "release": "give back a lock that a script took",
    "wait": "wait until a lock is free, without taking it",
    "ls": "list locks",
    "show": "show one lock, its holder and its line of waiters",
    "graph": "show who blocks whom",
    "revoke": "take a lock away from its holder",
    "dashboard": "show the locks of a server in a browser",
    "top": "show the locks that are waited for most, live",
    "history": "list long waits, losses, revocations and deadlocks",
    "completion": "print what a shell needs to complete commands and names",
    "doctor": "check server, permissions and settings",
    "server": "start, stop or look at the embedded server",
}

# A supervisor stops the command of these, by its process group: Windows has none.
_SUPERVISED = frozenset({"run", "once", "elect"})
_ALIASES = {"break": "revoke"}

# The files of commands that one reader needs together.
_FILES = {
    **dict.fromkeys(("acquire", "renew", "release"), "script"),
    **dict.fromkeys(("ls", "show", "revoke"), "inspect"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    from fencelock.cli import exits

    if argv is not None:  # a caller's process, and its streams
        return exits.run(lambda: _dispatch(argv))
    gc.disable()  # until ``collect_garbage``
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see the package's __init__.py
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _open_standard_streams()
    return exits.end(exits.run(lambda: _dispatch(sys.argv[1:])))


def _open_standard_streams() -> None:
    """Open /dev/null in the place of each standard stream that cron or a daemon has closed.

    Otherwise one of our sockets would get that number, and the command would inherit it as stdin.
    """
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
            os.set_inheritable(fd, True)  # noqa: FBT003 - the function's own form
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115 - open until the end
    # A name may have letters that stdout cannot encode: they are escaped, as on stderr.
    if getattr(sys.stdout, "errors", "") in {"strict", "surrogateescape"}:
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a file has it


def _dispatch(words: list[str]) -> int:
    from fencelock.cli.exits import UsageError

    if not words:
        raise UsageError("which command?", hint="fencelock --help")
    name, rest = _ALIASES.get(words[0], words[0]), words[1:]
    if name in {"-h", "--help", "help"}:
        return _dispatch([rest[0], "--help"]) if rest else _help()
    if name in {"-V", "--version", "version"}:
        from fencelock import __version__

        print(f"fencelock {__version__}")
        return 0
    if name.startswith("-"):
        raise UsageError(
            f"{name} comes before the command",
            hint="options come after it: fencelock COMMAND [options]",
        )
    if name not in COMMANDS:
        from difflib import get_close_matches

        near = get_close_matches(name, offered(), n=1)
        hint = f"did you mean `fencelock {near[0]}`?" if near else "fencelock --help"
        raise UsageError(f"unknown command {name!r}", hint=hint)
    if name not in offered():
        raise UsageError(
            f"`fencelock {name}` needs process groups, which this system lacks: hold the lock"
            " in the program itself, with fencelock.Client"
        )
    return command_of(name)(rest)


def offered() -> dict[str, str]:
    """Return the commands that this system can run, with their summaries."""
    if hasattr(os, "fork"):
        return COMMANDS
    return {name: text for name, text in COMMANDS.items() if name not in _SUPERVISED}


def command_of(name: str) -> Callable[[list[str]], int]:
    """Return the function of a command, from its own file."""
    from importlib import import_module

    module = import_module(f"fencelock.cli.commands.{_FILES.get(name, name)}")
    found: Callable[[list[str]], int] = getattr(module, f"{name}_command")
    return found


def collect_garbage() -> None:
    """Collect garbage from now on: among what was imported there is none.

    Repeated collections during the imports would take a tenth of the start.
    """
    if not gc.isenabled():
        if hasattr(gc, "freeze"):  # PyPy's collector has no such thing
            gc.freeze()
        gc.enable()


def _help() -> int:
    print("usage: fencelock COMMAND [options]\n\ncommands:")
    for name, summary in offered().items():
        print(f"  {name:10} {summary}")
    print(
        "\nexample:\n  fencelock run nightly --no-wait -- ./backup.sh\n\n"
        "Each command has --help. The server is --url, else FENCELOCK_URL, else one that starts\n"
        "by itself and is shared by all processes of this user on this machine."
    )
    return 0
