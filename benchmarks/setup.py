"""Makes `.venv` in this folder: fencelock from this repository, and its peers, pinned."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = HERE / ".venv" / "bin" / "python"


def main() -> None:
    if not PYTHON.exists():
        venv.create(HERE / ".venv", with_pip=True)
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "--editable", HERE.parent, "-r", HERE / "requirements.txt"], check=True)
    alone = ["--no-deps", "-r", HERE / "requirements-alone.txt"]
    subprocess.run([*pip, *alone], check=True)
    print(f"ready: {PYTHON} {HERE / 'run.py'} --quick")


if __name__ == "__main__":
    sys.exit(main())
