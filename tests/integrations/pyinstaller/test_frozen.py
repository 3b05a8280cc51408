"""A program that PyInstaller has frozen, with its defaults."""

import subprocess
import sys

PROGRAM = """
import asyncio, sys, fencelock

with fencelock.Client(sys.argv[1]) as client:
    with client.lock("a"), client.semaphore("s", 2):
        assert client.status("a").held

async def use():
    async with fencelock.AsyncClient(sys.argv[1]) as client, client.lock("b"):
        pass

asyncio.run(use())
"""


def test_a_frozen_program(server, tmp_path):
    """The scripts come along: PyInstaller asks our hook."""
    (tmp_path / "app.py").write_text(PROGRAM)
    freeze = [sys.executable, "-m", "PyInstaller", "--log-level", "WARN", "app.py"]
    subprocess.run(freeze, cwd=tmp_path, check=True, timeout=300)
    subprocess.run([tmp_path / "dist" / "app" / "app", server.url], check=True, timeout=60)
