"""Sow one defect into a copy of the package, and run the test that must fail on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from verification.mutations.sown import Sown

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "fencelock"
FAILED = 1  # pytest's exit status when tests ran and some failed
SECONDS = 120


def tried(sown: Sown, *options: str) -> bool:
    """Return True if the named test fails on a copy with the defect; options go to pytest."""
    with tempfile.TemporaryDirectory(prefix="fencelock-sown-") as folder:
        sow(sown, Path(folder))
        return check(sown, Path(folder), *options) == FAILED


def sow(sown: Sown, folder: Path) -> None:
    """Copy the package and put the defect in; LookupError when its place is gone."""
    copy = folder / "fencelock"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / sown.file
    text = file.read_text()
    if text.count(sown.old) != 1:
        raise LookupError(f"the place of {sown.name!r} is gone from {sown.file}")
    file.write_text(text.replace(sown.old, sown.new))


def check(sown: Sown, folder: Path, *options: str) -> int:
    """Run the test on what is in the folder, on one kind of server; return pytest's status."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--kinds", "1", "-p", "no:cacheprovider"]
    paths = os.pathsep.join([str(folder), str(ROOT)])
    ended = subprocess.run(
        [*command, *options, sown.check],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    return ended.returncode
