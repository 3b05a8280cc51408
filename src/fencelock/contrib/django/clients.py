"""The clients of the setting ``FENCELOCK``: one for threads and one for asyncio in each process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from fencelock._runtime.process import environment_url
from fencelock.aio.client import AsyncClient
from fencelock.blocking.client import Client

_guard = threading.Lock()
_made: list[Client] = []
_made_async: list[AsyncClient] = []


def client() -> Client:
    """Return the client of this project, made on first use from the setting ``FENCELOCK``.

    The setting is a dict of the options of ``fencelock.Client``, with the server as ``source``, or
    just its URL. Without a source it is ``FENCELOCK_URL``; with ``DEBUG`` it may be the embedded
    server of this machine.

    Raises:
        ImproperlyConfigured: the setting has another form, or no server is named.
        TypeError, ValueError: an option that cannot work.
    """
    with _guard:
        if not _made:
            _made.append(Client(**client_options()))
        return _made[0]


def aclient() -> AsyncClient:
    """Return the asyncio client of this project, made of the setting ``FENCELOCK`` as ``client()``.

    Call it in a coroutine. The connection of each event loop is closed when the loop ends, as that
    of ``async_to_sync`` does with each call.

    Raises:
        RuntimeError: no event loop runs; and all that ``client()`` raises.
    """
    asyncio.get_running_loop()
    with _guard:
        if not _made_async:
            _made_async.append(AsyncClient(**client_options()))
        return _made_async[0]


def client_options() -> dict[str, Any]:
    """Return the options of the client, checked as far as Django is concerned."""
    given = getattr(settings, "FENCELOCK", None) or {}
    if isinstance(given, str):
        given = {"source": given}
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(
            "FENCELOCK must be a URL or a dict of the options of fencelock.Client, such as"
            f" {{'source': 'redis://host:6379/0', 'ttl': 30}}, not {given!r}"
        )
    source = given.get("source") or environment_url()
    if source is None and not settings.DEBUG:
        raise ImproperlyConfigured(
            "FENCELOCK names no server: set FENCELOCK = {'source': 'redis://host:6379/0'}, or the"
            " environment variable FENCELOCK_URL. Only with DEBUG an embedded server is started,"
            " which other hosts do not share"
        )
    return {**given, "source": source}


def _forget(*, setting: str, **_: Any) -> None:
    """Make the clients anew after a test has changed their setting."""
    if setting in {"FENCELOCK", "DEBUG"}:
        with _guard:
            _made_async.clear()  # each loop that used it closes it
            while _made:
                _made.pop().close()


setting_changed.connect(_forget)
