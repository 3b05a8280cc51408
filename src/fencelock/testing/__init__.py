"""For tests of programs that use locks.

``plugin`` is a plugin of pytest, found by its entry point: a private server, clients, and helpers
that freeze, cut, hold and expire. ``inactive()`` is for tests that should need no server at all.
What a test does not use is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencelock.testing.inactive import inactive
    from fencelock.testing.server import PrivateServer

__all__ = ["PrivateServer", "inactive"]


def __getattr__(name: str) -> Any:
    """Import a name on first use: pytest loads this package in every run."""
    if name not in __all__:
        raise AttributeError(f"module 'fencelock.testing' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as said above

    where = "server" if name == "PrivateServer" else name
    found = globals()[name] = getattr(import_module(f"{__name__}.{where}"), name)
    return found
