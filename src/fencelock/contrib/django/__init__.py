"""Django: locks around transactions, commands and migrations, fences in the ORM, an admin page.

Put ``"fencelock.contrib.django"`` into ``INSTALLED_APPS``; the setting ``FENCELOCK`` has the
options of the client. Models that refuse old fences are in ``fencelock.contrib.django.fences``, a
cache with django-redis's ``cache.lock()`` in ``fencelock.contrib.django.cache``.
"""

from __future__ import annotations

try:
    import django as _django  # noqa: F401 - to say clearly what is missing
except ImportError as _error:
    raise ImportError(
        "fencelock.contrib.django needs Django 4.2 or newer: install the extra 'django'"
    ) from _error

from fencelock.contrib.django.clients import aclient, client
from fencelock.contrib.django.commands import django_command_lock
from fencelock.contrib.django.transactions import ReleasedInTransaction, alock, lock

__all__ = ["ReleasedInTransaction", "aclient", "alock", "client", "django_command_lock", "lock"]
