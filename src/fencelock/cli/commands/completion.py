"""``fencelock completion``: what a shell needs to complete commands, options and names of locks.

The script for a shell has all commands and options in it. Names are asked for when they are wanted,
for at most half a second, and of no server that would have to be started for that.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from shlex import quote
from typing import Final, NamedTuple

from fencelock.cli import arguments, command_of, offered
from fencelock.cli.session import Session, configured
from fencelock.errors import FencelockError

_SECONDS: Final = 0.5
# Any word of a command line that is whole for every command.
_WORDS: Final = ("x", "--", "true")


def completion_command(argv: list[str]) -> int:
    """Print the script for a shell, or names that begin with a word."""
    made = arguments.Parser(
        "completion",
        summary="print what a shell needs to complete commands, options and lock names",
        example='eval "$(fencelock completion bash)"   # in ~/.bashrc; zsh: in ~/.zshrc\n'
        "  fencelock completion fish > ~/.config/fish/completions/fencelock.fish",
    )
    made.add("shell bash|zsh|fish", "the shell", choices=("bash", "zsh", "fish", "names"))
    made.add("word WORD", argparse.SUPPRESS, nargs="?", default="")
    args = made.parse_with_server(argv)
    if args.shell == "names":
        _print_names(args)
    else:
        print({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](list(_described())))
    return 0


def _print_names(args: arguments.Arguments) -> None:
    """Print the names of locks that begin with a word; nothing when no server answers quickly."""
    from fencelock import embedded

    try:
        if not configured(args) and not embedded.status().running:
            return
        with Session(args) as session:
            session.closing_seconds = 0.0
            session.operator.limit_answers(_SECONDS)
            names = session.operator.names(_SECONDS)
    except (FencelockError, ValueError):
        return
    for name in names:
        if name.startswith(args.word) and name.isprintable():
            print(name)


class _Described(NamedTuple):
    """A command with its summary, its options and their help, and whether it takes a name."""

    name: str
    summary: str
    options: dict[str, str]
    named: bool


def _described() -> Iterator[_Described]:
    for name, summary in offered().items():
        made = arguments.described(partial(command_of(name), [*_WORDS])).full()
        actions = [each for each in made._actions if each.help is not argparse.SUPPRESS]  # noqa: SLF001 - argparse has no public list
        options = {
            option: _help(each) for each in actions for option in each.option_strings if option[1:2]
        }
        places = {each.dest for each in actions if not each.option_strings}
        yield _Described(name, summary, options, bool(places & {"name", "glob"}))


def _help(action: argparse.Action) -> str:
    """Return the first words of an option's help."""
    return (action.help or "").partition(";")[0].partition("(")[0].replace("%%", "%").strip()


def _bash(commands: list[_Described]) -> str:
    cases = "\n".join(
        f"        {each.name}) options={quote(' '.join(each.options))} named={each.named:d} ;;"
        for each in commands
    )
    return f"""_fencelock() {{
    local line word colon options named=0 name i
    line=${{COMP_LINE:0:COMP_POINT}} word=${{line##*[[:space:]]}}
    COMPREPLY=()
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W {quote(" ".join(each.name for each in commands))} -- "$word"))
        return
    fi
    for (( i = 2; i < COMP_CWORD; i++ )); do
        if [[ ${{COMP_WORDS[i]}} == -- ]]; then
            COMPREPLY=($(compgen -c -f -- "$word"))
            return
        fi
    done
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$word"))
    elif (( named )); then
        while IFS= read -r name; do
            COMPREPLY+=("$(printf %q "$name")")
        done < <(fencelock completion names "$word" 2>/dev/null)
    fi
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then  # readline completes what follows it
        colon=${{word%"${{word##*:}}"}}
        COMPREPLY=("${{COMPREPLY[@]#"$colon"}}")
    fi
}}
complete -F _fencelock fencelock"""


def _zsh(commands: list[_Described]) -> str:
    summaries = "\n".join(f"        {_item(each.name, each.summary)}" for each in commands)
    cases = "\n".join(
        f"        {each.name}) named={each.named:d} options=(\n"
        + "\n".join(f"            {_item(*option)}" for option in each.options.items())
        + "\n        ) ;;"
        for each in commands
    )
    return f"""#compdef fencelock
_fencelock() {{
    local -a commands options names
    local named=0
    commands=(
{summaries}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    if (( ${{words[(i)--]}} < CURRENT )); then
        _normal
        return
    fi
    case $words[2] in
{cases}
    esac
    if [[ $words[CURRENT] == -* ]]; then
        _describe option options
    elif (( named )); then
        names=("${{(@f)$(fencelock completion names "${{(Q)words[CURRENT]}}" 2>/dev/null)}}")
        compadd -a names
    fi
}}
compdef _fencelock fencelock"""


def _item(word: str, summary: str) -> str:
    """Return a word with its description, for ``_describe``."""
    return quote(f"{word}:{summary}")


def _fish(commands: list[_Described]) -> str:
    lines = ["complete -c fencelock -f"]
    for each in commands:
        first = f"complete -c fencelock -n __fish_use_subcommand -a {each.name}"
        lines.append(f"{first} -d {_fished(each.summary)}")
        within = f"complete -c fencelock -n '__fish_seen_subcommand_from {each.name}'"
        for option, summary in each.options.items():
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            lines.append(f"{within} {flag} -d {_fished(summary)}")
        if each.named:
            names = "(fencelock completion names (commandline -ct) 2>/dev/null)"
            lines.append(f"{within} -a '{names}'")
    return "\n".join(lines)


def _fished(text: str) -> str:
    """Return a text in quotes, as fish reads them."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
