"""What permissions can refuse comes before a script's first write.

A user may lose a right at any time. A script that is refused half way would leave a grant that only
its waiter knows of, or a key without an expiry. So what runs after the first command that changes
something ran before it, or the script asked for the right, or does without (``redis.pcall``).

``python -m tests.scripts.test_rights`` writes the table of what each script runs after that.
"""

import inspect
from collections import defaultdict
from pathlib import Path

import pytest

from fencelock import scripts
from tests.scripts import (
    test_election,
    test_keyspace,
    test_line,
    test_lock,
    test_once,
    test_quorum,
    test_shares,
    test_signals,
)
from tests.scripts.calls import Space
from verification.simulator import scripting
from verification.simulator.commands import Keyspace

TABLE = Path(__file__).with_name("after_the_first_write.txt")
HEAD = "# What each script runs after its first write; `python -m tests.scripts.test_rights`\n"
MODULES = test_lock, test_line, test_shares, test_signals, test_once, test_election, test_quorum
STEPS = 100
# Only ever called by ``redis.pcall``: who may not publish is taken for unheard, or heard.
TOLERATED = {"publish", "spublish", "pubsub"}


class NextSequence(test_keyspace.Sequence):
    """The same, of a client whose waiters take turns."""

    def one(self):
        return (self.acquire_next if self.random.random() < 0.4 else super().one)()

    def acquire_next(self):
        waiter, holder, channel, _ = self.who()
        entry = self.random.choice([b" ".join((waiter, holder, channel, b"")), b""])
        ended = self.random.choice([b"", b"h0", b"h1", b"h2"])
        used = self.random.choice([b"", b"1" * 16])
        args = (holder, entry, 90000, 690000, self.options(b"0"), b"", ended, used)
        return scripts.ACQUIRE_NEXT, test_keyspace.KEYS, (*args, self.random.choice([0, 2_000_000]))


class Watch:
    """Notes of each script that runs which commands follow its first change."""

    def __init__(self):
        self.after, self.unasked = defaultdict(set), defaultdict(set)
        self.before, self.changed = set(), None

    def run(self, program, *args):
        self.before, self.changed, outer = set(), False, self.changed
        self.after[program.name.removeprefix("@")] |= set()
        self.name = program.name
        try:
            return RUN(program, *args)
        finally:
            self.changed = outer

    def command(self, space, *words):
        name = words[0].decode().lower()
        if self.changed is None:  # a test's own
            return COMMAND(space, *words)
        if self.changed:
            self.after[self.name].add(name)
            self.unasked[self.name] |= {name} - self.before - TOLERATED
            return COMMAND(space, *words)
        self.before.add(name)
        space.keys()  # those that have ended are gone
        entries = dict(space._entries)
        try:
            return COMMAND(space, *words)
        finally:
            self.changed = space._entries != entries

    def may(self, command, *_):
        assert not self.changed, f"{self.name} asks when it has written"
        self.before.add(command.decode().lower())
        return True


RUN, COMMAND = scripting.Program.run, Keyspace.command


def watched():
    """Run all scripts in many states."""
    watch = Watch()
    with pytest.MonkeyPatch.context() as patch, scripting.rights(watch.may):
        patch.setattr(scripting.Program, "run", lambda *args: watch.run(*args))  # noqa: PLW0108 - a function takes self
        patch.setattr(Keyspace, "command", lambda *args: watch.command(*args))  # noqa: PLW0108 - as above
        for module in MODULES:
            for name, test in inspect.getmembers(module, inspect.isfunction):
                if name.startswith("test_") and [*inspect.signature(test).parameters] == ["space"]:
                    test(Space())
        for kind in (test_keyspace.Sequence, NextSequence, test_keyspace.ShareSequence):
            simulated = test_keyspace.Simulated()
            for seed in range(STEPS):
                sequence = kind(seed)
                simulated.space.clear()
                for _ in range(test_keyspace.PER_EXAMPLE):
                    simulated.run(*sequence.one())
    return watch


# What is not simulated, or writes once at the most.
ELSEWHERE = {"add_history", "answer", "ask", "note_locks", "orders", "probe"}


def table(watch):
    rows = (f"{name}: {' '.join(sorted(after))}".rstrip() for name, after in watch.after.items())
    return HEAD + "".join(f"{row}\n" for row in sorted(rows))


@pytest.fixture(scope="module")
def watch():
    return watched()


def test_nothing_is_run_after_the_first_write_that_could_be_refused_there(watch):
    assert {name: sorted(found) for name, found in watch.unasked.items() if found} == {}


def test_each_script_was_watched(watch):
    assert {script.name for script in scripts.ALL} - set(watch.after) == ELSEWHERE


def test_what_is_tolerated_is_never_an_error():
    for script in scripts.ALL:
        for name in TOLERATED:
            assert f"call('{name.upper()}'".encode() not in script.source.replace(b"pcall", b"")


def test_the_table_shows_what_each_script_runs_after_its_first_write(watch):
    assert table(watch) == TABLE.read_text()


if __name__ == "__main__":
    TABLE.write_text(table(watched()))
