"""What a server's INFO says."""

from __future__ import annotations


def facts(info: object) -> dict[str, str]:
    """Return the lines ``name:value`` of a reply; none of what is no text."""
    text = info.decode(errors="replace") if isinstance(info, bytes) else info
    lines = text.splitlines() if isinstance(text, str) else ()
    return dict(line.split(":", 1) for line in lines if ":" in line)
