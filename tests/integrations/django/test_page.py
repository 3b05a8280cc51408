"""The page for users: its blocks run in this order, in one project."""

import re
import subprocess
import sys

import pytest

pytest.importorskip("django")

from tests.integrations.django.conftest import ROOT

PAGE = ROOT / "docs" / "how-to" / "django.md"
MAIN = """
from django.core.management import call_command
from django.db import connection

with connection.schema_editor() as editor:
    editor.create_model(Account)
print(bill(7), view(None)[:20])
call_command(Command(), account=3)
pk = Account.objects.create(owner="ann").pk
deposit(pk, 5)
assert Account.objects.get(pk=pk).balance == 5
close("ann")
assert Account.objects.get(pk=pk).balance == 0
"""


def test_the_blocks_of_the_page_run(server, tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    settings, *others = blocks
    assert "redis://localhost:6379/0" in settings
    settings = settings.replace("redis://localhost:6379/0", server.tcp_url)
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "page.sqlite3")}
    program = [
        settings,
        "from django.conf import settings",
        (
            f"settings.configure(INSTALLED_APPS=INSTALLED_APPS, FENCELOCK=FENCELOCK,"
            f" DATABASES={{'default': {database!r}}})"
        ),
        "import django",
        "django.setup()",
        *others,
        MAIN,
    ]
    text = "\n".join(program).replace(
        "class Account(FencedModel):",
        "class Account(FencedModel):\n    owner = models.CharField(max_length=9)\n"
        "    class Meta:\n        app_label = 'shop'",
    )
    (tmp_path / "page.py").write_text(text)
    ran = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "billed 7 the lock is released\nimporting 3\n"
