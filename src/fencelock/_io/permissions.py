"""The permission that a refusal is about, as an ACL rule writes it."""

from __future__ import annotations

import re
from typing import Final

# How servers from 6.2 to 9 say it, in plain replies and from inside a script.
_PLACES: Final = (
    ("channel", "&PREFIX* (PREFIX is the client's key_prefix)"),
    ("key", "~PREFIX* (PREFIX is the client's key_prefix)"),
)
_SCRIPT: Final = "each decision is a script; `wait=Poll()` also needs it, to renew and release"
_LISTEN: Final = "a waiter listens for its turn; with `wait=Poll()` it does not"
_NEEDS: Final = {"eval": _SCRIPT, "evalsha": _SCRIPT, "subscribe": _LISTEN, "ssubscribe": _LISTEN}
_DOCTOR: Final = "`fencelock doctor` shows what is missing, and prints the ACL rule"


def lacking(text: str) -> str:
    """Return the permission that is missing after this NOPERM, and where to find the whole rule."""
    named = re.search(r"run the '([^']+)' command", text)
    if named:
        need = _NEEDS.get(named[1])
        return f"the user lacks +{named[1]}: {need + '; ' if need else ''}{_DOCTOR}"
    if "access" in text:
        for word, pattern in _PLACES:
            if word in text:
                return f"the user lacks {pattern}: {_DOCTOR}"
    return f"the user lacks a permission, for a command inside a script: {_DOCTOR}"


def missing(text: str) -> str:
    """Return what it means that a server does not have a command; '' when that is not the error."""
    found = re.search(r"unknown command [`']([^`']+)", text)
    need = found and _NEEDS.get(found[1].lower())
    return f"the server has no {found[1].upper()}: {need}" if found and need else ""
