"""Acquire and release a semaphore's permit, or a read side, while nobody else wants any."""

from __future__ import annotations

from contestants import READER, SEMAPHORE, THREADS
from report import Result

from cases import Setting
from cases.uncontended import beside_our_lock


def semaphore(setting: Setting) -> list[Result]:
    """One thread, one permit."""
    return [beside_our_lock("semaphore", SEMAPHORE, THREADS, setting)]


def read(setting: Setting) -> list[Result]:
    """One thread, the read side."""
    return [beside_our_lock("rwlock-read", READER, THREADS, setting)]
