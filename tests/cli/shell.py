"""Commands as a shell starts them: real processes, on a real server.

Nothing here sleeps: what a test waits for it asks for, again and again, until a deadline.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import select
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import fencelock
from fencelock._runtime.clock import now
from fencelock._runtime.log import log
from fencelock.cli import main
from tests.waiting import until

PATIENCE = 15.0
FENCELOCK = (sys.executable, "-m", "fencelock")
# Commands that start no other, which `Shell` runs in our process; ``start`` has each in its own.
HERE = frozenset(
    {
        *("acquire", "renew", "release", "wait", "ls", "show", "graph", "revoke", "break"),
        *("history", "doctor", "completion", "help", "--help"),
    }
)

# What a test's command reports goes to a file of lines "WORD INSTANT", the instant on the clock of
# leases. It says "up" once it handles signals, then what it hears, and "still" again and again.
REPORTER = """
import os, signal, sys, time
from fencelock._runtime.clock import now
born = now()
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def say(word):
    os.write(out, f"{word} {now()}\\n".encode())
def heard(number, _):
    say(signal.Signals(number).name)
    if number in ends:
        say("bye")
        sys.exit(int(sys.argv[3]))
names = [name for name in sys.argv[2].split(",") if name]
ends = {getattr(signal, name.strip("!")) for name in names if name.startswith("!")}
for name in names:
    signal.signal(getattr(signal, name.strip("!")), heard)
say(f"up:{os.getpid()}")
while now() < born + 60:  # whatever becomes of the test
    say("still")
    signal.sigtimedwait([], 0.005)
"""


def eventually(condition, what="it", patience=PATIENCE):
    """Return what the condition returns once that is true."""
    return until(condition, what, patience)


def quoted(words):
    """Return a command as a shell reads it."""
    return shlex.join(map(str, words))


class Process:
    """A command that was started."""

    def __init__(self, *words, env, **options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        options = {"stdin": subprocess.DEVNULL, "start_new_session": True} | pipes | options
        self.popen = subprocess.Popen([*FENCELOCK, *map(str, words)], env=env, **options)
        self.pid = self.popen.pid

    def end(self):
        """Return its exit status, with what it printed in ``out`` and ``err``."""
        self.out, self.err = self.popen.communicate()
        return self.popen.returncode

    def close_stdin(self):
        self.popen.stdin.close()
        self.popen.stdin = None

    def send(self, number):
        self.popen.send_signal(number)

    def close(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        for pipe in filter(None, (self.popen.stdin, self.popen.stdout, self.popen.stderr)):
            pipe.close()


class Result:
    """What a command did."""

    def __init__(self, process, status):
        self.status, self.out, self.err = status, process.out, process.err

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def report(self):
        """The JSON that ``run --json`` ends with."""
        return json.loads(self.err.splitlines()[-1])

    def __repr__(self):
        return f"exit {self.status}\nout: {self.out}\nerr: {self.err}"


class Shell:
    """Starts commands with one environment, and ends what is left of them."""

    def __init__(self, folder: Path, env: dict[str, str]):
        self.folder = folder
        self.env = env
        self._started = []
        self._reporters = []

    def start(self, *words, **options):
        process = Process(*words, env=self._environment(options.pop("env", {})), **options)
        self._started.append(process)
        return process

    def __call__(self, *words, **options):
        """Run a command to its end: in our process where nothing of it lasts, as that is cheap."""
        if words and words[0] in HERE and options.keys() <= {"env"}:
            return self._here(words, self._environment(options.get("env", {})))
        process = self.start(*words, **options)
        return Result(process, process.end())

    def _here(self, words, env):
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, env, clear=True),
            mock.patch("os.getppid", os.getpid),  # we are the shell that starts it
            mock.patch.object(log, "prepare", log.prepare),
            mock.patch.dict(vars(logging.getLogger("fencelock")), handlers=[], _cache={}),
            Path(os.devnull).open() as stdin,
            mock.patch("sys.stdin", stdin),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            status = main([*map(str, words)])
        return Result(SimpleNamespace(out=out.getvalue(), err=err.getvalue()), status)

    def _environment(self, more):
        """Return the environment with more; what is None is not set."""
        return {name: value for name, value in (self.env | more).items() if value is not None}

    def in_line(self, name="x", count=1):
        """Wait until so many stand in line; a command would take half a second for each look."""
        with fencelock.Client(self.env["FENCELOCK_URL"]) as client:
            eventually(lambda: client.status(name).waiting == count, f"{count} in line")

    def reporter(self, *, handles="", exit_with=0):
        """Return a command that reports, and its report. ``!TERM`` ends it, ``TERM`` does not."""
        names = ",".join(
            f"!SIG{name[1:]}" if name.startswith("!") else f"SIG{name}" for name in handles.split()
        )
        made = Report(self.folder / f"report-{len(self._reporters)}")
        self._reporters.append(made)
        return (sys.executable, "-c", REPORTER, made.path, names, exit_with), made

    def close(self):
        # First what fencelock may have left behind: it holds the pipes that are read to their end.
        for report in self._reporters:
            if report.pid and alive(report.pid):
                os.kill(report.pid, signal.SIGKILL)
        for process in self._started:
            process.close()


class Report:
    """What a reporter wrote."""

    def __init__(self, path):
        self.path = path

    def lines(self):
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split() for line in text.splitlines() if line.count(" ") == 1]

    def words(self):
        return [word for word, _ in self.lines()]

    def at(self, word):
        """Return the first instant of a word, or None."""
        return next((float(at) for each, at in self.lines() if each == word), None)

    @property
    def pid(self):
        ups = [word for word in self.words() if word.startswith("up:")]
        return int(ups[0][3:]) if ups else None

    def up(self):
        """Wait until it has started; return its pid."""
        return eventually(lambda: self.pid, "the start of the command")

    def heard(self, word):
        eventually(lambda: word in self.words(), word)

    def last_sign(self):
        """Return the last instant at which it was seen alive."""
        return float(self.lines()[-1][1])


def alive(pid):
    """Return True if a process lives; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def gone(pid):
    """Wait for the end of a process."""
    eventually(lambda: not alive(pid), f"the end of {pid}")


def listens(server):
    """Wait until a holder hears revocations: it begins to a moment after the grant."""

    def heard():
        channels = server.command("PUBSUB", "CHANNELS", "fencelock:@*")
        return any("." not in channel for channel in channels)

    eventually(heard, "a holder that listens")


def instant():
    return now()


def read_until(master, text, seen=b""):
    def more():
        nonlocal seen
        if select.select([master], [], [], 0.01)[0]:
            seen += os.read(master, 4096)
        return text in seen

    eventually(more, f"{text!r} on the terminal")
    return seen


def ended(pid):
    def status():
        found, number = os.waitpid(pid, os.WNOHANG)
        return found and (number,)

    return os.waitstatus_to_exitcode(eventually(status, "its end")[0])
