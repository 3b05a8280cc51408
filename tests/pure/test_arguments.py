"""cli/arguments.py: what is read without argparse is what argparse would read."""

import random
from contextlib import suppress
from functools import partial

import pytest

from fencelock.cli import COMMANDS, arguments, command_of

PARSERS = {
    name: arguments.described(partial(command_of(name), ["x", "--", "true"])) for name in COMMANDS
}
WORDS = (
    *("x", "", "-", "--", "5", "-1", "5s", "5z", "300", "true", "term", "json", "a:1", "--help"),
    *("-n", "-q", "-v", "-w", "-w5", "-E", "-nq", "--no-wait", "--json", "--shared", "--exclusive"),
    *(
        "--ttl",
        "--ttl=5",
        "--tt",
        "--slots",
        "--on-lost",
        "--format",
        "--allow-host",
        "--url",
        "--prefix",
        "--wait",
    ),
    *("--wait", "--label", "--grace", "--within", "--holder", "--max-hold", "--unknown"),
)


def needed(option):
    """Return words for an option that a command must have."""
    for text in ("x", "5", "a:1", *option.spec.get("choices", ())):
        with suppress(ValueError):
            option.value(text)
            return [text] if option.place else [option.names[-1], text]
    raise AssertionError(option.names)


@pytest.mark.parametrize("command", PARSERS)
def test_a_command_line_means_what_argparse_reads_in_it(command):
    parser, chance = PARSERS[command], random.Random(command)
    full, read = parser.full(), 0
    must = [word for each in parser.options if each.required for word in needed(each)]
    for _ in range(3000):
        line = chance.choices(WORDS, k=chance.randrange(6)) + must * chance.randrange(2)
        told = parser.read(line)
        if told is not None:
            read += 1
            assert vars(told) == vars(full.parse_args(line)), line
    assert read > 10


def test_a_usual_run_is_read_without_argparse():
    line = ["nightly", "--no-wait", "--at-least", "10m", "--url", "redis://h", "--label", "me"]
    told = PARSERS["run"].read(line)
    assert (told.name, told.no_wait, told.at_least, told.ttl) == ("nightly", True, 600.0, 30.0)
