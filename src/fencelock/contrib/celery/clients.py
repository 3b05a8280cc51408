"""The client of an app's locks: one for each app and process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from celery.exceptions import ImproperlyConfigured

from fencelock._runtime.process import environment_url
from fencelock.blocking.client import Client

_clients: WeakKeyDictionary[Any, Client] = WeakKeyDictionary()
_guard = threading.Lock()
_SCHEMES = ("redis://", "rediss://", "valkey://", "valkeys://")


def client_of(app: Any) -> Client:
    """Return the client of an app: of its setting ``fencelock``, ``FENCELOCK_URL`` or its broker.

    Raises:
        ImproperlyConfigured: none of them names a server.
        TypeError, ValueError: an option that cannot work.
    """
    with _guard:
        if app not in _clients:
            _clients[app] = Client(**client_options(app.conf))
        return _clients[app]


def client_options(conf: Any) -> dict[str, Any]:
    """Return the options of an app's client; an embedded server would be one for each host."""
    given = conf.get("fencelock") or {}
    if isinstance(given, str):
        given = {"source": given}
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(
            "the setting fencelock must be a URL or a dict of the options of fencelock.Client, such"
            f" as {{'source': 'redis://host', 'ttl': 30}}, not {given!r}"
        )
    source = given.get("source") or environment_url()
    if not source:
        source = conf.get("broker_write_url") or conf.get("broker_url")
        if not (isinstance(source, str) and source.startswith(_SCHEMES) and ";" not in source):
            raise ImproperlyConfigured(
                "fencelock does not know the server of the locks: the broker is not Redis or"
                " Valkey. Set app.conf.fencelock = {'source': 'redis://host:6379/0'}, or"
                " FENCELOCK_URL"
            )
    return {**given, "source": source}
