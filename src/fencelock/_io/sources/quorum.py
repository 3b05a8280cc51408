"""Several sources: a quorum of independent servers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from fencelock._io.sources.kinds import Cloned, One
from fencelock._io.sources.resolve import resolve

# Between URLs: whitespace or commas, where another URL begins. A comma inside one stays.
_BETWEEN = re.compile(r"[\s,]+(?=[A-Za-z][A-Za-z0-9+.-]*://)")


class QuorumSource(NamedTuple):
    """The nodes of a quorum: how to connect to each, and what to call them."""

    sources: Sequence[One]
    labels: Sequence[str]

    @property
    def label(self) -> str:
        """Return what people call them together."""
        return "a quorum of " + ", ".join(self.labels)


def quorum_source(source: object, *, asynchronous: bool) -> QuorumSource | None:
    """Return the nodes of a quorum, or None for what is one source.

    Raises:
        TypeError, ValueError: a list that cannot be a quorum, or what ``resolve`` says of a source.
    """
    if source is None:
        source = os.environ.get("FENCELOCK_URL") or None
    if isinstance(source, str):
        urls = split(source)
        if len(urls) == 1:
            return None
        source = urls
    if not isinstance(source, (list, tuple)):
        return None
    if len(source) < 3:  # noqa: PLR2004 - see the message
        raise ValueError(
            "a quorum needs at least 3 sources: with 2, both must answer, and one that fails stops"
            f" all; got {len(source)}"
        )
    if None in source:
        raise TypeError("a quorum's sources must be URLs or clients; None is the embedded server")
    sources = [_single(resolve(each, asynchronous=asynchronous)) for each in source]
    labels = [_label(each) for each in sources]
    twice = sorted({label for label in labels if labels.count(label) > 1 and "://" in label})
    if twice:
        raise ValueError(f"a quorum's sources must be different servers: {', '.join(twice)}")
    labels = [
        label if "://" in label else f"{label} {number}" for number, label in enumerate(labels, 1)
    ]
    return QuorumSource(sources, labels)


def split(urls: str) -> list[str]:
    """Return the URLs of a list in one string."""
    return _BETWEEN.split(urls.strip())


def _single(found: object) -> One:
    """Return the source of one server; a Cluster or a service of Sentinels is several already."""
    if isinstance(found, One):
        return found
    label = getattr(found, "label", found)
    raise ValueError(f"a quorum's sources must be single, independent servers, not {label}")


def _label(source: One) -> str:
    """Return the name that all clients give this node: its address, if that is known."""
    settings = source.settings if isinstance(source, Cloned) else {}
    if "host" in settings:
        return f"redis://{settings['host']}:{settings.get('port', 6379)}/{settings.get('db', 0)}"
    return source.label
