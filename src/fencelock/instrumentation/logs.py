"""Hooks that write each event into a log: by ``logging``, or by structlog."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from fencelock._core import events
from fencelock._core.events import LockEvent


def fields_of(event: LockEvent) -> dict[str, Any]:
    """Return the known fields of an event, with units in their names."""
    who = event.who
    words = {
        "object": event.object,
        "template": event.template,
        "server": event.server,
        "unit": who.get("unit"),
        "label": who.get("label"),
        "fence": event.fence,
        "waited_seconds": event.waited,
        "held_seconds": event.held,
        "ahead": event.ahead,
        "behind": event.behind.get("unit"),
        "reason": event.reason,
        "detail": event.detail,
        "error": None if event.error is None else repr(event.error),
    }
    return {name: value for name, value in words.items() if value not in {None, "", 0}}


class LoggingHook(events.OwnHook):
    """Writes to the logger ``fencelock.events``, at DEBUG; the fields are in ``extra``, too."""

    def __init__(self) -> None:
        self._log = logging.getLogger("fencelock.events")

    def __ways__(self) -> Mapping[str, events.Way]:
        """Return that it looks first, whatever happens."""
        return dict.fromkeys(events.KINDS, (self, self._is_enabled))

    def _is_enabled(self, *_: object) -> bool:
        return self._log.isEnabledFor(logging.DEBUG)

    def __call__(self, event: LockEvent, /) -> None:
        """Write one line."""
        if self._is_enabled():
            known = fields_of(event)
            words = " ".join(f"{name}={value}" for name, value in known.items())
            extra = {"fencelock": {"event": event.kind, "name": event.name, **known}}
            self._log.debug("%s %r %s", event.kind, event.name, words, extra=extra)


class StructlogHook:
    """Writes to structlog's logger of the name ``fencelock``, at DEBUG."""

    def __init__(self) -> None:
        structlog: Any = import_module("structlog")
        self._log = structlog.get_logger("fencelock")

    def __call__(self, event: LockEvent, /) -> None:
        """Write one entry."""
        self._log.debug(f"lock_{event.kind}", name=event.name, **fields_of(event))
