"""Makes `.venv-benchmarks` in the repository: fencelock as it is here, and its peers, pinned."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not in this folder: what looks through our files must not look through the peers'.
FOLDER = HERE.parent / ".venv-benchmarks"
PYTHON = FOLDER / "bin" / "python"


def main() -> None:
    if not PYTHON.exists():
        venv.create(FOLDER, with_pip=True)
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "--editable", HERE.parent, "-r", HERE / "requirements.txt"], check=True)
    alone = ["--no-deps", "-r", HERE / "requirements-alone.txt"]
    subprocess.run([*pip, *alone], check=True)
    print(f"ready: {PYTHON} {HERE / 'run.py'} --quick")


if __name__ == "__main__":
    main()
