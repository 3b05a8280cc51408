"""What a run was measured on: ratios of two machines, or of two builds of Python, say little."""

from __future__ import annotations

import os
import platform
import sysconfig
from pathlib import Path
from typing import Any

from cases import Setting, on_one_core
from cases.uncontended import CHUNK, probe, sample
from contestants import FLOOR, TASKS, THREADS
from crew import Crew
from servers import version

SAMPLES = 9


def about(setting: Setting) -> dict[str, Any]:
    """Return the machine, its Python and its server, and how fast the floors of a pair are."""
    threads, tasks = floors_us(setting)
    return {
        "server": version(setting.address),
        "python": platform.python_version(),
        "build": build(),
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "floor, threads": f"{threads:.1f} us",
        "floor, asyncio": f"{tasks:.1f} us",
        "quick": setting.quick,
        "slow_ours_us": setting.slow_us,
    }


def floors_us(setting: Setting) -> list[float]:
    """Return the least of some samples of the floor of a pair, of threads and of asyncio."""
    with Crew(1) as crew, on_one_core(crew, setting):
        least = []
        for face in (THREADS, TASKS):
            who = setting.who(FLOOR, face)
            crew.all(probe, who)
            least.append(min(crew.call(0, sample, who, CHUNK) for _ in range(SAMPLES)) * 1e6)
    return least


def build() -> str:
    """Return which Python this is, and how it was made: that alone is a tenth or two."""
    given = sysconfig.get_config_var("CONFIG_ARGS") or ""
    made = [
        word
        for option, word in (("--enable-optimizations", "PGO"), ("--with-lto", "LTO"))
        if option in given
    ]
    free = ["free-threaded"] if sysconfig.get_config_var("Py_GIL_DISABLED") else []
    how = " and ".join(made) or "neither PGO nor LTO"
    return ", ".join([platform.python_implementation(), platform.python_compiler(), how, *free])


def cpu() -> str:
    """Return the processor's name, as the system tells it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()} ({platform.machine()})"
