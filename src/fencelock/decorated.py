"""The options of decorators, for threads and asyncio alike.

Apart from ``templates``, which takes long to import and is needed for decorated functions only.
"""

from __future__ import annotations

from typing import Any

from fencelock import options
from fencelock.errors import NotAcquired
from fencelock.handles import Defaults, Settings, settings


def decorated_settings(given: Defaults, on_busy: str, **chosen: Any) -> Settings:
    """Check the options of ``locked``."""
    if on_busy not in {"wait", "skip", "raise"}:
        raise ValueError(f'on_busy must be "wait", "skip" or "raise", not {on_busy!r}')
    made = settings(given, **chosen)
    if on_busy == "wait":
        return made
    if made.timeout is not None:
        raise ValueError(f"timeout needs on_busy='wait': {on_busy!r} does not wait")
    return made._replace(timeout=options.NO_WAIT)


def within_itself(name: str) -> NotAcquired:
    """Return the error for a call that would wait for its own lock."""
    return NotAcquired(f"already locked: {name!r} is held by a call around this one", name=name)
