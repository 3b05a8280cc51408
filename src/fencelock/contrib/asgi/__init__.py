"""ASGI applications, such as those of Starlette and FastAPI.

``Leading`` runs a task on one worker of the fleet. ``locked`` makes a dependency of FastAPI that
holds a lock, and ``hold`` does it in an endpoint of Starlette. ``CancelOnDisconnect`` is a
middleware. Each is imported when it is first used; only ``locked`` and ``hold`` need Starlette.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencelock.contrib.asgi.disconnect import CancelOnDisconnect
    from fencelock.contrib.asgi.leading import Leading
    from fencelock.contrib.asgi.requests import hold, locked

__all__ = ["CancelOnDisconnect", "Leading", "hold", "locked"]


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as said above

    where = {"CancelOnDisconnect": "disconnect", "Leading": "leading"}.get(name, "requests")
    found = globals()[name] = getattr(import_module(f"{__name__}.{where}"), name)
    return found
