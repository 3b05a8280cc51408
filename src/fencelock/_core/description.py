"""What a holder or waiter says of itself, in JSON; see ``_handles.handle.describe``."""

from __future__ import annotations

from typing import Any


def described(info: bytes | str) -> dict[str, Any]:
    """Return it, as far as it can be read: another program may have written it."""
    import json  # noqa: PLC0415 - it loads for long, and few commands of the shell need it

    try:
        told = json.loads(info)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
