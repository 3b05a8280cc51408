"""The recipes of the page, as files that a real worker runs."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.test_docs import ROOT, Block, blocks

PAGE = ROOT / "docs" / "how-to" / "queues-and-schedulers.md"
SHUT_DOWN = PAGE.with_name("shut-down.md")

# What the recipes leave to the reader: the job. It says in a file that it began and ended; while
# a file "hold" exists, it does not end.
WORK = """
import os as _os
import threading as _threading
from pathlib import Path as _Path

_HERE, _PAUSE = _Path(__file__).parent, _threading.Event()


def _say(word, *more):
    with (_HERE / "log").open("a") as log:
        print(word, _os.getpid(), *more, file=log)


def work(account_id, lease):
    _say("began", lease.fence)
    while (_HERE / "hold").exists() and not lease.lost:
        _PAUSE.wait(0.02)
    _say("ended", lease.fence)
"""
ASYNC_WORK = WORK.replace("def work(", "async def work(").replace(
    "_PAUSE.wait(0.02)", "await __import__('asyncio').to_thread(_PAUSE.wait, 0.02)"
)


def recipes(heading: str, kind: str = "python", page: Path = PAGE) -> list[str]:
    """Return the blocks below a heading of a page."""
    text = page.read_text()
    first = re.search(rf"^#+ {heading}$", text, re.MULTILINE).start()
    last = text.find("\n## ", first)
    begin, end = (text.count("\n", 0, at) for at in (first, last if last > 0 else len(text)))
    found: list[Block] = [one for one in blocks(page) if begin < one.line <= end + 1]
    return [one.text for one in found if one.info == kind]


class Place:
    """A folder with the recipe as a module, and the workers that run there."""

    def __init__(self, path: Path, url: str, stack: contextlib.ExitStack) -> None:
        self.path, self.url, self.stack = path, url, stack
        self.environment = {**os.environ, "FENCELOCK_URL": url, "PYTHONPATH": str(path)}

    def put(self, name: str, text: str) -> None:
        """Write a module; a lease lasts until the test has looked, also on a busy machine."""
        (self.path / name).write_text(text.replace("ttl=2", "ttl=6"))

    def start(self, *command: str) -> subprocess.Popen:
        """Start a worker by a command of this environment, with all it starts in one group."""
        program = Path(sys.executable).parent / command[0]
        with (self.path / "output").open("ab") as out:
            process = subprocess.Popen(
                [str(program), *command[1:]],
                cwd=self.path,
                env=self.environment,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.stack.callback(self.kill, process)
        return process

    def kill(self, process: subprocess.Popen) -> None:
        """Kill a worker and all that it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def lines(self, word: str) -> list[list[str]]:
        """Return what the jobs have said so far with that word."""
        log = self.path / "log"
        said = log.read_text().splitlines() if log.exists() else []
        return [line.split() for line in said if line.split()[:1] == [word]]

    def wait(self, word: str, times: int) -> list[list[str]]:
        """Return what the jobs have said, once they have said it so often."""
        pause = threading.Event()
        for _ in range(3000):
            found = self.lines(word)
            if len(found) >= times:
                return found
            pause.wait(0.02)
        output = (self.path / "output").read_text(errors="replace")
        said = len(self.lines(word))
        raise AssertionError(f"{word!r} was said {said} times, of {times}\n{output}")
