"""What PyInstaller asks, by its entry point ``pyinstaller40``, to freeze a program."""

from __future__ import annotations

from pathlib import Path


def hook_folders() -> list[str]:
    """Return where ``hook-fencelock.py`` is, which names the files that must come along."""
    return [str(Path(__file__).parent)]
