"""Build the package as an index gets it, and check all of it: ``python3 dev.py release-check``.

python3 dev.py release-check [--quick] [--keep FOLDER]

What is checked is the last commit, in clean clones. ``--quick`` leaves out the two checks that run
tests for minutes. Each check prints a line; what a failed one said follows. The last lines are what
only the owner of the repository can fill in. The exit status is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from email.message import Message
from email.parser import Parser
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PLACEHOLDER = "OWNER"  # in lines that the owner fills in
METADATA_VERSION = "2.4"  # newer ones are refused by some tools for uploading
RUN_TIME = {"fencelock", "redis", "hiredis"}
# What each extra is for, and so must be there with it alone.
USES = {
    "asgi": "import fencelock.contrib.asgi",
    "celery": "import fencelock.contrib.celery",
    "dashboard": "import fencelock.dashboard, starlette, uvicorn",
    "django": "import fencelock.contrib.django",
    "embedded": "import fencelock\nwith fencelock.Client().lock('release-check'): pass",
    "opentelemetry": "from fencelock.instrumentation import opentelemetry_hook",
    "prometheus": "from fencelock.instrumentation import prometheus_hook; prometheus_hook()",
    "structlog": "from fencelock.instrumentation import structlog_hook; structlog_hook()",
    "testing": "import fencelock.testing",
    "top": "import fencelock.cli._top",
    "valkey": "import valkey, fencelock",
}
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)\s]+)\)")


class Failed(Exception):
    """A check that failed, with what it said."""


class Release:
    """The folders of one check: clones, what they build, and environments."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dist = folder / "first" / "dist"

    # -- steps ------------------------------------------------------------------------------------

    def run(self, *command: str | Path, cwd: Path | None = None, **settings: str) -> str:
        """Run a program and return what it printed; Failed when it says that it failed."""
        done = subprocess.run(
            command,
            check=False,
            cwd=cwd or self.folder,
            env=environment() | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}")
        return done.stdout

    def tool(self, module: str, *args: str | Path, cwd: Path | None = None) -> str:
        """Run a tool of the group ``release``."""
        return self.run(sys.executable, "-m", module, *args, cwd=cwd)

    def clone(self, name: str) -> Path:
        """Return a new clone of the last commit."""
        self.run("git", "clone", "--quiet", ROOT, name)
        return self.folder / name

    def environment(self, name: str, *what: str | Path) -> Path:
        """Return the Python of a new environment with these installed."""
        self.run(sys.executable, "-m", "venv", name)
        python = self.folder / name / "bin" / "python"
        self.run(python, "-m", "pip", "install", "--quiet", "--no-input", *what)
        return python

    def installed(self, python: Path) -> list[str]:
        """Return the packages of an environment, each with its version."""
        without = "--exclude=pip", "--exclude=setuptools"
        return self.run(python, "-m", "pip", "list", "--format=freeze", *without).split()

    @property
    def wheel(self) -> Path:
        """Return the wheel that was built."""
        (found,) = self.dist.glob("*.whl")
        return found

    @property
    def sdist(self) -> Path:
        """Return the source distribution that was built."""
        (found,) = self.dist.glob("*.tar.gz")
        return found

    def metadata(self) -> Message:
        """Return what an index reads of the wheel."""
        with zipfile.ZipFile(self.wheel) as wheel:
            (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
            return Parser().parsestr(wheel.read(name).decode())

    # -- checks, in their order -------------------------------------------------------------------

    def builds_the_same_twice(self) -> None:
        """Two clean clones build the same files, byte for byte."""
        sums = []
        for name in ("first", "second"):
            clone = self.clone(name)
            self.tool("build", cwd=clone)
            built = sorted((clone / "dist").iterdir())
            sums.append({each.name: sha256(each.read_bytes()).hexdigest() for each in built})
        if sums[0] != sums[1]:
            raise Failed(f"{sums[0]}\n{sums[1]}")

    def passes_twine(self) -> None:
        """The page can be shown, and the metadata uploaded."""
        self.tool("twine", "check", "--strict", self.wheel, self.sdist)

    def has_what_a_wheel_has(self) -> None:
        """check-wheel-contents finds nothing."""
        # W004: a migration of Django begins with a number by convention.
        self.run(self._script("check-wheel-contents"), "--ignore", "W004", self.wheel)

    def rates_ten_of_ten(self) -> None:
        """Pyroma rates it 10."""
        self.run(self._script("pyroma"), "--min=10", ROOT)

    def has_valid_settings(self) -> None:
        """validate-pyproject finds nothing in pyproject.toml."""
        self.run(self._script("validate-pyproject"), self.folder / "first" / "pyproject.toml")

    def has_true_metadata(self) -> None:
        """Version, licence, Pythons, extras and links are what they should be."""
        told, wrong = self.metadata(), []
        if told["Metadata-Version"] != METADATA_VERSION:
            wrong.append(f"Metadata-Version {told['Metadata-Version']}, not {METADATA_VERSION}")
        if (told["License-Expression"], told["License-File"]) != ("MIT", "LICENSE"):
            wrong.append(f"licence {told['License-Expression']} in {told['License-File']}")
        extras = told.get_all("Provides-Extra", [])
        if sorted(extras) != sorted(USES):
            wrong.append(f"extras {sorted(extras)}, not {sorted(USES)}")
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        wrong += [
            f"the README names no fencelock[{e}]" for e in USES if f"fencelock[{e}]" not in readme
        ]
        wrong += [
            f"a link that is not absolute: {each}" for each in LINK.findall(str(told.get_payload()))
        ]
        if wrong:
            raise Failed("\n".join(wrong))

    def works_alone(self) -> None:
        """The wheel in an empty environment brings two packages, and says what it needs."""
        python = self.environment("alone", self.wheel)
        if (found := {line.partition("==")[0] for line in self.installed(python)}) != RUN_TIME:
            raise Failed(f"installed: {sorted(found)}")
        version = self.run(python.parent / "fencelock", "--version").strip()
        if version != f"fencelock {PROJECT['project']['version']}":
            raise Failed(version)
        self.run(python, "-c", "import fencelock; fencelock.Client; fencelock.AsyncClient")

    def works_with_each_extra(self) -> None:
        """Each extra brings what it is for, without another."""
        for extra, use in USES.items():
            python = self.environment(f"with-{extra}", f"{self.wheel}[{extra}]")
            settings = "from django.conf import settings; settings.configure()\n"
            program = settings + use if extra == "django" else use
            self.run(python, "-c", program, FENCELOCK_DIR=str(self.folder / "run"))

    def passes_from_the_sdist(self) -> None:
        """The source distribution has all its tests, and the quickest pass there."""
        self.run("tar", "-xf", self.sdist, "-C", self.folder)  # tarfile filters from 3.11.4 on
        there = self.folder / self.sdist.name.removesuffix(".tar.gz")
        self.run(sys.executable, "dev.py", "test", "--collect-only", "-q", "tests", cwd=there)
        self.run(sys.executable, "dev.py", "fast", cwd=there)

    def passes_with_the_lowest_versions(self) -> None:
        """The daily tests pass with the oldest dependencies that are allowed."""
        lowest = [each.replace(">=", "==") for each in PROJECT["project"]["dependencies"]]
        python = self.environment("second/.venv", *lowest)
        before = self.installed(python)
        self.run(python, "dev.py", "test", cwd=self.folder / "second")
        after = self.installed(python)
        if replaced := [each for each in before if each not in after]:
            raise Failed(f"not tested with {replaced}")

    @staticmethod
    def _script(name: str) -> Path:
        return Path(sys.executable).parent / name


QUICK: list[Callable[[Release], None]] = [
    Release.builds_the_same_twice,
    Release.passes_twine,
    Release.has_what_a_wheel_has,
    Release.rates_ten_of_ten,
    Release.has_valid_settings,
    Release.has_true_metadata,
    Release.works_alone,
    Release.works_with_each_extra,
]
SLOW: list[Callable[[Release], None]] = [
    Release.passes_from_the_sdist,
    Release.passes_with_the_lowest_versions,
]


def environment() -> dict[str, str]:
    """Return the user's environment, without what would lead to this checkout."""
    foreign = ("PYTHON", "VIRTUAL_ENV", "FENCELOCK_", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return own | {"FENCELOCK_EMBEDDED": "1"}


@contextlib.contextmanager
def folder_of(kept: Path | None) -> Iterator[Path]:
    """Yield an empty folder that goes at the end, unless it is to be kept."""
    if kept is not None:
        kept.mkdir(parents=True)
        yield kept.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="fl-release-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def left_to_the_owner() -> list[str]:
    """Return the lines that only the owner can fill in, with their places."""
    return [
        f"{path.name}:{number}: {line.strip()}"
        for path in (ROOT / "pyproject.toml",)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PLACEHOLDER in line
    ]


def main() -> int:
    """Run the checks that the arguments choose."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="without the checks that run tests")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave all that was made there")
    options = parser.parse_args()
    failed = 0
    with folder_of(options.keep) as folder:
        release = Release(folder)
        if release.run("git", "status", "--porcelain", cwd=ROOT):
            print("note: what is not committed is not checked", flush=True)
        for check in QUICK if options.quick else QUICK + SLOW:
            about = (check.__doc__ or "").strip()
            try:
                check(release)
            except Failed as trouble:
                failed += 1
                print(f"FAILED  {about}\n{trouble}", flush=True)
                if check is Release.builds_the_same_twice:
                    break
            else:
                print(f"ok      {about}", flush=True)
    print("\nThe owner of the repository fills in:")
    print("\n".join(left_to_the_owner()) or "nothing more")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
