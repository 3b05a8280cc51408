"""Make the table, say so, and wait for a word if a test wants that."""

import os

from django.db import migrations, models
from redis import Redis


def report(apps, schema_editor):
    redis = Redis.from_url(os.environ["FENCELOCK_URL"], socket_timeout=None)
    redis.rpush("migrated", os.getpid())
    if os.environ.get("SHOP_SLOW"):
        redis.blpop(["go"], timeout=60)


class Migration(migrations.Migration):
    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Account",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("fence", models.BigIntegerField(default=0, editable=False)),
                ("owner", models.CharField(max_length=50)),
                ("balance", models.IntegerField(default=0)),
            ],
        ),
        migrations.RunPython(report, migrations.RunPython.noop),
    )
