"""What the admin page shows. It has no table: locks are on their server."""

from __future__ import annotations

from typing import Any

from django.db import models

from fencelock.contrib.django.bases import Model


class Lock(Model):
    """A lock; the permissions to see it and to take it away belong to this model."""

    name: Any = models.CharField(primary_key=True, max_length=1024)

    class Meta:
        """No table, and no permission to add, change or delete."""

        managed = False
        default_permissions: tuple[str, ...] = ("view",)
        permissions: tuple[tuple[str, str], ...] = (
            ("revoke_lock", "Can take a lock away from its holder"),
        )
        verbose_name = "lock"
        verbose_name_plural = "locks"

    def __str__(self) -> str:
        """Return its name."""
        return str(self.name)
