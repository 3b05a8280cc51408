"""What `fencelock run NAME -- true` adds to a command, from the shell's view."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from contestants import FLOOR, OURS
from measure import alternate
from report import MILLISECONDS, Result, result
from slow import BUSY
from wire import Line

from cases import Setting

AT_MOST_MS = 35


def case(setting: Setting) -> list[Result]:
    """The floor is a Python that does nothing; flock(1) is what people use on one host."""
    with tempfile.TemporaryDirectory() as folder, Line(setting.address) as line:
        commands = commands_of(setting, folder)

        # As installed: compiled once, whatever the environment of this run says.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

        def measure(name: str) -> float:
            begin = perf_counter()
            if name == OURS and setting.slow_us:
                line.command("EVAL", BUSY, 0, setting.slow_us)
            subprocess.run(commands[name], check=True, capture_output=True, env=environment)
            return perf_counter() - begin

        measure(OURS)
        peers = [name for name in commands if name not in {OURS, FLOOR}]
        samples = alternate(measure, FLOOR, OURS, peers, setting.plan(40, 10))
    more_ms = samples.over_floor(OURS) * 1e3
    row = result(
        "cli-startup",
        MILLISECONDS,
        samples,
        FLOOR,
        absent={} if peers else {"flock": "no flock on the PATH"},
    )
    row.target, row.met = f"<= {AT_MOST_MS} ms more than python -c pass", more_ms <= AT_MOST_MS
    row.details["more than the floor"] = f"{more_ms:.1f} ms"
    return [row]


def commands_of(setting: Setting, folder: str) -> dict[str, list[str]]:
    script = Path(sys.executable).parent / "fencelock"
    ours = [str(script)] if script.exists() else [sys.executable, "-m", "fencelock"]
    run = ["run", "--url", setting.address.url, "bench:startup", "--", "true"]
    commands = {FLOOR: [sys.executable, "-c", "pass"], OURS: [*ours, *run]}
    flock = shutil.which("flock")
    if flock is not None:
        commands["flock"] = [flock, str(Path(folder) / "lock"), "true"]
    return commands
