"""The app: its name, and a check of the setting."""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from fencelock.blocking.client import Client
from fencelock.contrib.django.bases import AppConfig
from fencelock.contrib.django.clients import client_options


class FencelockConfig(AppConfig):
    """``"fencelock.contrib.django"`` in INSTALLED_APPS."""

    name = "fencelock.contrib.django"
    label = "fencelock"
    verbose_name = "Fencelock"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the check."""
        checks.register(check_setting)


def check_setting(**_: Any) -> list[Any]:
    """Complain of a setting FENCELOCK that cannot work; asks no server."""
    try:
        given = client_options()
        if given["source"] is not None:  # else the embedded server would be started
            Client(**given).close()
    except ImproperlyConfigured as error:
        return [checks.Warning(str(error), id="fencelock.W001")]
    except (TypeError, ValueError) as error:
        return [checks.Error(f"FENCELOCK: {error}", id="fencelock.E001")]
    return []
