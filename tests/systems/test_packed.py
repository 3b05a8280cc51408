"""The package inside a zip, as of zipapp and of frameworks that ship a program to their workers."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import fencelock
from tests.servers import Server

PACKAGE = Path(fencelock.__file__).parent
SECONDS = 60.0

# Of ours, only the zip: an editable install is found by its own finder, or by its path.
PROGRAM = f"""
import sys
packed, url = sys.argv[1:]
sys.path[:] = [packed, *[each for each in sys.path if each != {str(PACKAGE.parent)!r}]]
sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in repr(each).lower()]

import asyncio, fencelock
from fencelock.cli import main

assert fencelock.__file__.startswith(packed)
with fencelock.Client(url) as client:
    many = client.multi(["m", "n"])
    for each in (client.lock("a"), client.semaphore("s", 2), client.rwlock("w").write, many):
        with each as lease:
            lease.renew()
    assert client.once("o", within=9).run(lambda: 1).value == 1
    client.event("e").set()
    assert not client.status("a").held

async def use():
    async with fencelock.AsyncClient(url) as client, client.lock("b"):
        pass

asyncio.run(use())
assert main(["ls", "--url", url]) == 0
"""


def test_in_a_zip(tmp_path: Path) -> None:
    """The scripts are read by whatever loads the modules."""
    packed = tmp_path / "app.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in PACKAGE.rglob("*.*"):
            if "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(PACKAGE.parent))
    with Server() as server:
        command = [sys.executable, "-c", PROGRAM, str(packed), server.url]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    assert done.returncode == 0, done.stderr
