#!/usr/bin/env python3
"""Every task of this repository, one command each; the set-up is done by itself.

python3 dev.py demo [ARG ...]     two processes take turns under a lock, on a real server
python3 dev.py test [ARG ...]     the tests of every change; ARGs go to pytest
python3 dev.py test --python 3.13 [ARG ...]
                                  the same with another Python
python3 dev.py test --stress [ARG ...]
                                  the same beside a busy process on each core
python3 dev.py fast [ARG ...]     the quickest tests, for the inner loop; ARGs go to pytest
python3 dev.py rest               what a merge needs beside ``test``: other servers, topologies,
                                  frameworks, and what is slow
python3 dev.py servers [NAME ...] the conformance tests on each server that public packages have
python3 dev.py nightly            everything: ``lint``, ``test`` with two Pythons, ``rest``, what
                                  the night has time for, ``servers``, ten minutes of ``explore``
python3 dev.py explore [ARG ...]  the deep search through schedules, crashes and lost replies
python3 dev.py lint               ruff, mypy, pyright, and whether generated files are up to date
python3 dev.py release-check      build the package as an index gets it, and check all of it
python3 dev.py docs [--to FOLDER] draw the pictures anew and build the site, in .venv-docs

Needs Python 3.11 or newer on Linux or macOS, and a package index that pip can reach; no root, and
nothing installed beforehand. All it installs goes into .venv beside this file, for another Python
into .venv-3.13 or the like, and what ``servers`` fetches into .servers: remove such a folder to
start afresh.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NoReturn

VERSION = ".".join(map(str, sys.version_info[:3]))
if sys.version_info < (3, 11):
    sys.exit(f"dev.py needs Python 3.11 or newer; this is Python {VERSION}")

ROOT = Path(__file__).resolve().parent
PYPROJECT = ROOT / "pyproject.toml"
VENV = ROOT / os.environ.get("FENCELOCK_DEV_VENV", ".venv")  # this file sets it, for another Python
PYTHON = VENV / "bin" / "python"
# Dependency groups of pyproject.toml: what all tests need, and with the frameworks of nightly ones.
TOOLS, FRAMEWORKS, RELEASE, SITE = "test", "integrations", "release", "docs"

INSTRUMENTS = tuple(f"verification/{of}" for of in ("simulator", "runs", "soak.py", "failovers.py"))
LINTS = (
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("tools.generate_blocking", "--check"),
    ("tools.generate_reference", "--check"),
    ("mypy", "--strict", "src", "tests/typing", *INSTRUMENTS),
    ("basedpyright",),  # its settings name what it reads
)
# Every public name must have a type that all type checkers agree on, without guessing.
COMPLETE = ("basedpyright", "--verifytypes", "fencelock", "--ignoreexternal")
# What all kinds of objects stand on; for one of them, add its tests: ``dev.py fast tests/tasks``.
# What computes for long comes first, with what waits for long in the two other processes.
FAST = (
    "tests/flows/test_locks.py",
    "tests/conformance/test_renewal.py",
    "tests/test_tidy.py",
    "tests/scripts/test_keyspace.py",
    "tests/conformance/test_exclusive.py",
    *(
        f"tests/conformance/test_{name}.py"
        for name in ("errors", "fences", "foreign", "line", "names", "reentrant", "sources")
    ),
    # What a new object lacks; in a moment.
    *("tests/flows/test_alphabet.py", "tests/test_objects.py", "tests/test_public_surface.py"),
    "tests/pure",
)

# Most tests wait for something. So they run in several processes, each with servers of its own, a
# file in one of them; what takes long comes first, so that no process ends up alone with it.
SPREAD = ("--dist=loadfile", "--no-loadscope-reorder")
LONG, LONGEST = "tests/strikes", "tests/integrations"  # with files of minutes
COMPUTES = "tests/flows"  # never waits; its last file begins when so much of all has begun
EARLY = 0.7
# Tests of deadlines and failovers want a machine that is not busy.
CALM = ("tests/scale", "tests/cluster", "tests/verification", "tests/faults", "tests/cli")
CALM_PROCESSES, PROCESSES = 3, 4  # each collects all cases: some six seconds of a core
# And these few want it for themselves; the file says why.
CALM_TESTS, CALM_PART = ROOT / "tests" / "calm.txt", "--part=calm"
# tests/daily.py says which test belongs to which part.
DAILY, REST, NIGHTLY = "--part=daily", "--part=rest", "--part=nightly"
NEWER = "3.13"  # the Python that ``nightly`` tests beside the one that runs it
EXPLORED = "--seconds=600"  # what ``nightly`` gives the explorer
# What pytest ends with after Ctrl-C, and a process that SIGINT or SIGTERM killed: then stop.
INTERRUPTED = frozenset({2, 130, 143})

# Keeps a core busy until the process ends that started it, also if that one is killed.
STRESS = "--stress"
SPIN = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(10**6))"

FAST_KINDS = 1  # of all kinds of servers on this machine, on so many
ONCE = "not first-play and not second-play"  # without what is played a second time after a rest
STOP = "from fencelock import embedded; embedded.stop()"

# A user's settings that would lead our own environment, tests and demo elsewhere, or have each of
# the thousands of processes of the tests compile every module anew.
FOREIGN = frozenset(
    {
        "FENCELOCK_DEV_VENV",
        "FENCELOCK_DIR",
        "FENCELOCK_URL",
        "PIP_PREFIX",
        "PIP_TARGET",
        "PIP_USER",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSAFEPATH",
        "__PYVENV_LAUNCHER__",
    }
)


# --- the commands ---------------------------------------------------------------------------------


def demo(*args: str) -> int:
    """Run the example on a server of its own, and stop that server at the end."""
    with tempfile.TemporaryDirectory(prefix="fl-", ignore_cleanup_errors=True) as folder:
        example = run("examples/take_turns.py", *args, FENCELOCK_DIR=folder)
        return first_failure((example, run("-c", STOP, FENCELOCK_DIR=folder)))


def test(*args: str) -> int:
    """Run the daily tests, or, in one process, those that arguments choose."""
    if args[:1] == ("--python",):
        return with_python(*args[1:])
    if STRESS in args:
        with all_cores_busy():
            return test(*(each for each in args if each != STRESS))
    if args:
        return run("-m", "pytest", *args)
    chosen = in_order("tests/verification", LONG, without=(LONGEST,), but="mark.daily")
    return spread(PROCESSES, DAILY, *chosen)


def with_python(version: str = "", *args: str) -> int:
    """Run the daily tests with another Python: this file in that one, with its own packages."""
    if not re.fullmatch(r"3\.\d+", version):
        fail("--python needs a version such as 3.13")
    python = find_python(version)
    if python is None:
        fail(f"Python {version} was not found: no python{version} on PATH or in ~/.pyenv that runs")
    venv = f".venv-{version}"
    return run(str(Path(__file__)), "test", *args, python=python, FENCELOCK_DEV_VENV=venv)


def with_newer_python() -> int:
    """Run the daily tests with the newer Python, if this machine has it."""
    if find_python(NEWER) is None:
        say(f"skipped: the daily tests with Python {NEWER}, which was not found")
        return 0
    return with_python(NEWER)


def rest() -> int:
    """Run what is not daily, and is to be passed before a merge."""
    return in_turn(partial(later, REST), partial(run, "-m", "pytest", CALM_PART, *calm_files()))


def later(part: str) -> int:
    """Run a part that is not daily, with fewer processes for what wants a calm machine."""
    set_up(FRAMEWORKS)
    return in_turn(
        partial(spread, PROCESSES, part, *in_order(LONGEST, LONG, without=CALM)),
        partial(spread, CALM_PROCESSES, part, *CALM),
    )


def servers(*args: str) -> int:
    """Fetch servers of other kinds and versions, and test on each; see tools/server_check.py."""
    return run("-m", "tools.server_check", *args)


def nightly() -> int:
    """Run everything."""
    night = (partial(later, NIGHTLY), servers, partial(explore, EXPLORED))
    return in_turn(lint, test, with_newer_python, rest, *night)


def fast(*args: str) -> int:
    """Say which figures have grown, and run the quickest tests; with arguments, some of those."""
    folders = [folder for folder in FAST if (ROOT / folder).exists()]
    chosen = ("-m", "not slow", "-k", ONCE, DAILY, f"--kinds={FAST_KINDS}", *folders, *args)
    if args:
        return run("-m", "pytest", *chosen)
    with ThreadPoolExecutor(1) as beside:
        above = beside.submit(figures)
        tested = spread(PROCESSES, *chosen)
    return first_failure((above.result(), tested))


def figures() -> int:
    """Say which figures have grown: in seconds, as the tests begin."""
    done = quiet(PYTHON, "-m", "tests.test_ratchets")
    print(done.stdout, end="", flush=True)
    return exit_status(done.returncode)


def explore(*args: str) -> int:
    """Search schedules for as long as it takes, deeper than the tests do."""
    return run("-m", "tests.flows.deep", *args)


def lint() -> int:
    """Run every linter, also after one has failed: two at a time, as each of them uses one core."""
    path = f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"  # where pyright looks for Python

    def told(command: tuple[str, ...]) -> int:
        done = quiet(PYTHON, "-m", *command, PATH=path)
        print(done.stdout if command != COMPLETE else completeness(done), end="", flush=True)
        return exit_status(done.returncode)

    with ThreadPoolExecutor(2) as linters:
        return first_failure(list(linters.map(told, (*LINTS, COMPLETE))))


def completeness(done: subprocess.CompletedProcess[str]) -> str:
    """Return which public names lack a type that is written down."""
    missing = done.stdout.rpartition("Symbols used in public interface:")[2]
    return missing if done.returncode else "Success: every public name has a type\n"


def release_check(*args: str) -> int:
    """Build the package in clean clones and check it; see tools/release_check.py."""
    set_up(RELEASE)
    return run("-m", "tools.release_check", *args)


def docs(*args: str) -> int:
    """Build the site in an environment of its own; see tools/build_site.py."""
    venv = ".venv-docs"
    if VENV.name != venv:
        me = str(Path(__file__))
        return run(me, "docs", *args, python=Path(sys.executable), FENCELOCK_DEV_VENV=venv)
    set_up(SITE)
    return run("-m", "tools.build_site", *args)


COMMANDS = {
    command.__name__.replace("_", "-"): command
    for command in (
        *(demo, test, fast, rest, servers),
        *(nightly, explore, lint, release_check, docs),
    )
}
ALONE = ("lint", "rest", "nightly")  # commands that take no arguments


def spread(processes: int, *args: str) -> int:
    """Run tests in several processes."""
    return run("-m", "pytest", f"--numprocesses={processes}", *SPREAD, *args)


def calm_files() -> list[str]:
    """Name the files of the tests that run alone, each once."""
    lines = CALM_TESTS.read_text().splitlines()
    return sorted({line.partition("::")[0] for line in lines if not line.startswith("#")})


@contextlib.contextmanager
def all_cores_busy() -> Iterator[None]:
    """Have a process for each core compute during a block; Ctrl-C ends them with the block."""
    spin = [sys.executable, "-c", SPIN, str(os.getpid())]
    with contextlib.ExitStack() as started:
        for _ in range(os.cpu_count() or 1):
            process = started.enter_context(subprocess.Popen(spin, start_new_session=True))
            started.callback(process.kill)
        yield


def in_order(*long: str, without: tuple[str, ...] = (), but: str = "\0") -> list[str]:
    """Name all files with tests: folders that take long first, and those that compute in between.

    What computes would leave the processor to what waits, and have it idle afterwards. ``without``
    these folders, but for the files there that have a text.
    """
    found = sorted(path.relative_to(ROOT) for path in ROOT.glob("tests/**/test_*.py"))
    rooms = {path: "/".join(path.parts[:2]) for path in found}
    chosen = [path for path in found if rooms[path] not in without or but in path.read_text()]
    waits = [path for path in chosen if rooms[path] != COMPUTES]
    waits.sort(key=lambda path: long.index(rooms[path]) if rooms[path] in long else len(long))
    computes = [path for path in chosen if rooms[path] == COMPUTES]
    places = {path: at / len(waits) for at, path in enumerate(waits)}
    places |= {path: EARLY * at / len(computes) for at, path in enumerate(computes)}
    return list(map(str, sorted(places, key=places.__getitem__)))


# --- set-up ---------------------------------------------------------------------------------------


def set_up(group: str = TOOLS) -> None:
    """Bring the environment up to date with a group of pyproject.toml; two calls take turns."""
    stamp = VENV / f"installed-{group}"
    with alone():
        if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted():
            return
        if not usable():
            create()
        install(group)
        stamp.write_text(wanted())


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold this checkout's set-up lock: the file that says what to install stands for it."""
    with PYPROJECT.open("rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up of this checkout")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def wanted() -> str:
    """Name what should be installed: it depends on what is asked for, and where the code is."""
    return hashlib.sha256(PYPROJECT.read_bytes() + os.fsencode(ROOT)).hexdigest()


def usable() -> bool:
    """Return True if the environment is whole: not half made, too old, or without its Python."""
    probe = "import pip, sys; sys.exit(sys.version_info < (3, 11))"
    return PYTHON.exists() and quiet(PYTHON, "-c", probe).returncode == 0


def find_python(version: str) -> Path | None:
    """Return a Python of this version that runs: pyenv puts names on PATH that may not."""
    name = f"python{version}"
    places = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    places += sorted(Path.home().glob(f".pyenv/versions/{version}*/bin"), reverse=True)
    probe = f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    found = (place / name for place in places if (place / name).is_file())
    return next((each for each in found if quiet(each, "-c", probe).returncode == 0), None)


def create() -> None:
    """Make the environment anew."""
    if importlib.util.find_spec("ensurepip") is None:
        fail(
            f"Python {VERSION} at {sys.executable} lacks ensurepip, which .venv is made with;\n"
            "on Debian and Ubuntu it comes with the package python3-venv"
        )
    say(f"making {VENV.name} with Python {VERSION}")
    done = quiet(sys.executable, "-m", "venv", "--clear", VENV)
    if done.returncode:
        fail(f"{done.stdout}could not make {VENV}")


def install(group: str) -> None:
    """Install what a group names; the package itself in place."""
    say(f"installing the group {group!r} into {VENV.name} (a minute, the first time)")
    done = quiet(PYTHON, "-m", "pip", "install", "--no-input", *requirements(group))
    if done.returncode:
        fail(f"{done.stdout}pip could not install the group {group!r}")


def requirements(group: str) -> list[str]:
    """Return a dependency group as pip's arguments: that of Python 3.11 knows no groups."""
    import tomllib  # noqa: PLC0415 - an older Python, which lacks it, is to get a clear message

    found: list[str] = []
    for each in tomllib.loads(PYPROJECT.read_text())["dependency-groups"][group]:
        if not isinstance(each, str):
            found += requirements(each["include-group"])
        elif each.startswith("fencelock["):  # with what users can choose to install
            found += ["--editable", each.replace("fencelock", str(ROOT))]
        else:
            found.append(each)
    return found


# --- processes ------------------------------------------------------------------------------------


def run(*args: str, python: Path = PYTHON, **settings: str) -> int:
    """Run our Python in the checkout and give its status; Ctrl-C and SIGTERM are the child's."""
    with subprocess.Popen([python, *args], cwd=ROOT, env=environment(**settings)) as child:
        before = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            return exit_status(wait(child))
        finally:
            signal.signal(signal.SIGTERM, before)


def wait(child: subprocess.Popen[bytes]) -> int:
    """Wait for a child that the terminal tells of Ctrl-C by itself, so that it may clean up."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return child.wait()


def quiet(*command: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the set-up, keeping what it prints."""
    return subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        env=environment(**settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def environment(**settings: str) -> dict[str, str]:
    """Give the user's environment without what leads elsewhere, ready for a container."""
    own = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    return {**own, "VIRTUAL_ENV": str(VENV), "FENCELOCK_EMBEDDED": "1", **settings}


def exit_status(code: int) -> int:
    """Give a status as a shell does: 128 and the signal for a process that a signal ended."""
    return code if code >= 0 else 128 - code


def in_turn(*parts: Callable[[], int]) -> int:
    """Run one part after the other, whatever fails, until Ctrl-C."""
    statuses = []
    for part in parts:
        statuses.append(part())
        if statuses[-1] in INTERRUPTED:
            return statuses[-1]
    return first_failure(statuses)


def first_failure(statuses: Iterable[int]) -> int:
    """Give the first status that is not success."""
    return next((status for status in statuses if status), 0)


# --- the command line -----------------------------------------------------------------------------


def say(line: str) -> None:
    """Print one line about the set-up, apart from what the command itself prints."""
    print(f"dev.py: {line}", file=sys.stderr, flush=True)


def fail(message: str) -> NoReturn:
    """End with a message."""
    sys.exit(f"dev.py: {message}")


def main() -> int:
    """Run the command that the first argument names."""
    name, *args = sys.argv[1:] or ["--help"]
    if name not in COMMANDS or (args and name in ALONE):
        print(__doc__)
        return 0 if name in ("-h", "--help") else 2
    try:
        if name != "docs":  # it needs nothing of what the others need
            set_up()
        return COMMANDS[name](*args)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
