"""Members of one lock, in Java and in Python, each a process that a test can ask, freeze and kill.

The ones in Java are built with Maven, which fetches Redisson once and works offline from then on.
Where there is no Java, no Maven, or no Redisson to be had, ``built`` raises ``Missing``.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

from tests.faults.children import Answering

HERE = Path(__file__).parent
ANSWER_SECONDS = 60.0  # a busy machine
BUILD_SECONDS = 120


class Missing(Exception):
    """Why there can be no member in Java on this machine."""


class Refused(Exception):
    """What a member's library raised: the name of the error, and its text."""


def built(folder: Path, redisson: str) -> str:
    """Compile Member.java against that version of Redisson; return the class path."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise Missing(f"this machine has no {program}")
    for name in ("pom.xml", "Member.java"):
        shutil.copy(HERE / name, folder)
    command = ["mvn", "-q", "-B", f"-Dredisson={redisson}", "compile"]
    for words in ([*command, "-o"], command):
        ran = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
        if ran.returncode == 0:
            target = folder / "target"
            return f"{target / 'classes'}{os.pathsep}{target / 'jars' / '*'}"
        if "COMPILATION ERROR" in ran.stdout:
            raise AssertionError(ran.stdout)
    raise Missing(f"Maven cannot fetch Redisson {redisson}")


class Member(Answering):
    """One process; ``ask`` returns a future, and any other verb is asked and waited for.

    ``member.try_("a", "orders", 0)`` has its thread "a" try, and returns True or False.
    """

    answer_seconds = ANSWER_SECONDS

    def ask(self, verb, thread, name, *arguments):
        future = Future()
        self._asked.append(future)
        words = (len(self._asked) - 1, thread, verb, name, *arguments)
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        return future

    def __getattr__(self, verb):
        def asked(thread, name, *arguments, seconds=ANSWER_SECONDS):
            return self.ask(verb.strip("_"), thread, name, *arguments).result(seconds)

        return asked

    def _read(self):
        for line in self._process.stdout:
            number, _, answer = line.rstrip("\n").partition(" ")
            if number == "ready":
                self._ready.set_result(True)
            elif answer.startswith("! "):
                self._asked[int(number)].set_exception(Refused(answer.removeprefix("! ")))
            else:
                self._asked[int(number)].set_result(value(answer))
        for each in (self._ready, *self._asked):  # it is gone: no answer comes any more
            if not each.done():
                each.set_exception(Refused("the process has ended"))


def value(text):
    """Return what both languages print: true, false, a number, or text."""
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    return int(text) if text.lstrip("-").isdigit() else text


class Java(Member):
    """A JVM with Redisson; ``watchdog`` in milliseconds, ``prefix`` for a NameMapper.

    ``short``: it is started quicker, and is not made quick where it runs for long.
    """

    def __init__(self, class_path, url, *, short=False, **properties):
        given = [f"-D{name}={text}" for name, text in properties.items()]
        given += ["-XX:TieredStopAtLevel=1"] if short else []
        super().__init__(["java", "-XX:+UseSerialGC", *given, "-cp", class_path, "Member", url])


class Python(Member):
    """A Python process with fencelock's lock, for threads or for asyncio."""

    def __init__(self, face, url, **options):
        given = [f"{name}={text}" for name, text in options.items()]
        command = [sys.executable, "-m", "tests.integrations.redisson.member", face, url, *given]
        super().__init__(command)
