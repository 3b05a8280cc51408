"""The model ``Lock``, which has permissions and no table."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations, models

from fencelock.contrib.django import bases


class Migration(bases.Migration):
    """Makes no table."""

    initial = True

    dependencies: ClassVar[list[Any]] = []

    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="Lock",
            fields=[
                ("name", models.CharField(max_length=1024, primary_key=True, serialize=False)),
            ],
            options={
                "verbose_name": "lock",
                "verbose_name_plural": "locks",
                "permissions": (("revoke_lock", "Can take a lock away from its holder"),),
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
    ]
