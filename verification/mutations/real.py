"""Sow one defect in a process of its own, and run the test that must fail on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from verification.mutations.sown import Sown

ROOT = Path(__file__).resolve().parents[2]
# This tree, also where an environment has another one installed.
PATH = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
FAILED = 1  # pytest's exit status when tests ran and some failed
SECONDS = 120


def tried(sown: Sown, *options: str) -> bool:
    """Return True if the named test fails with the defect; options go to pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--kinds", "1", "-p", "no:cacheprovider"]
    command += ["-p", "verification.mutations.plugin", "--sown", sown.name]
    ended = subprocess.run(
        [*command, *options, sown.check],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": PATH, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    return ended.returncode == FAILED
