"""A project of Django over a server of ours, on SQLite and on PostgreSQL."""

import contextlib
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fencelock
from tests import waiting
from tests.integrations.fences.databases import directory, owner, postgresql, program, running

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 40
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgresql_folder():
    pytest.importorskip("psycopg")
    with postgresql() as folder:
        yield folder


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """Return the environment that leads to a new database of this kind."""
    if request.param == "sqlite":
        return {"SHOP_DATABASE": str(tmp_path / "shop.sqlite3")}
    import psycopg  # noqa: PLC0415  # the fixture skips without it

    folder, name = request.getfixturevalue("postgresql_folder"), f"shop_{next(_numbers)}"
    with psycopg.connect(host=str(folder), user="postgres", autocommit=True) as made:
        made.execute(f"CREATE DATABASE {name}")
    return {"SHOP_POSTGRESQL": str(folder), "SHOP_DATABASE": name}


@pytest.fixture
def pgbouncer(postgresql_folder):
    """Start PgBouncer in transaction mode before PostgreSQL; return its folder and port."""
    command, user = program("pgbouncer"), owner(("postgres",))
    with directory(user) as folder:
        settings = folder / "settings"
        settings.write_text(
            f"[databases]\n* = host={postgresql_folder} user=postgres\n"
            f"[pgbouncer]\nlisten_addr=\nlisten_port=6432\nunix_socket_dir={folder}\n"
            "auth_type=any\npool_mode=transaction\ndefault_pool_size=5\n"
        )
        socket = folder / ".s.PGSQL.6432"
        with running([command, str(settings)], user, folder / "log", socket.exists):
            yield {"SHOP_POSTGRESQL": str(folder), "SHOP_PORT": "6432"}


def until(look, what="the state"):
    """Ask until the answer is true, and return it; leave the processor to the commands."""
    return waiting.until(look, what, SECONDS, tick=0.02)


@pytest.fixture
def manage(server, tmp_path):
    """Start a command of the project as a process; all are killed at the end."""
    started = []

    def start(*args, **environment):
        env = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.integrations.django.settings",
            "FENCELOCK_URL": server.tcp_url,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "SHOP_DATABASE": str(tmp_path / "none.sqlite3"),
            **environment,
        }
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "django", *args],
                cwd=tmp_path,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


@pytest.fixture
def run(manage):
    """Run a command to its end; return its status, output and errors."""

    def call(*args, **environment):
        process = manage(*args, **environment)
        out, err = process.communicate(timeout=SECONDS)
        return process.returncode, out, err

    return call


# --- Django in this process -----------------------------------------------------------------------


@contextlib.contextmanager
def environment(server, **more):
    """Set what the project's settings and migrations read; other tests must not see it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FENCELOCK_URL", server.tcp_url)
        patch.setenv("DJANGO_SETTINGS_MODULE", "tests.integrations.django.settings")
        for name, value in more.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def project(shared_server, tmp_path_factory):
    """Set Django up in this process, over a SQLite file with all tables."""
    path = tmp_path_factory.mktemp("project") / "shop.sqlite3"
    with environment(shared_server, SHOP_DATABASE=str(path)):
        import django  # noqa: PLC0415  # once its settings are known
        from django.conf import settings  # noqa: PLC0415  # as above
        from django.core.management import call_command  # noqa: PLC0415  # as above
        from django.db import connections  # noqa: PLC0415  # as above

        django.setup()
        settings.FENCELOCK["source"] = shared_server.tcp_url
        call_command("migrate", verbosity=0)
    yield
    connections.close_all()
    from fencelock.contrib.django import client  # noqa: PLC0415  # it reads the settings

    client().close()


@pytest.fixture(scope="session")
def second_database(project, postgresql_folder, shared_server):
    """Add a PostgreSQL database to the project, with all tables."""
    from django.conf import settings  # noqa: PLC0415  # after the set-up
    from django.core.management import call_command  # noqa: PLC0415  # as above
    from django.db import connections  # noqa: PLC0415  # as above

    settings.DATABASES["postgresql"] = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": str(postgresql_folder),
        "USER": "postgres",
        "NAME": "postgres",
    }
    connections.settings = connections.configure_settings(settings.DATABASES)
    with environment(shared_server):
        call_command("migrate", database="postgresql", verbosity=0)


@pytest.fixture(params=["default", "postgresql"])
def alias(request, project, server):
    """Return the alias of a database with an empty table of accounts."""
    if request.param == "postgresql":
        request.getfixturevalue("second_database")
    from tests.integrations.django.shop.models import Account  # noqa: PLC0415  # after the set-up

    Account.objects.using(request.param).all().delete()
    return request.param


@pytest.fixture
def elsewhere(server):
    """Lend a client of another program."""
    with fencelock.Client(server.tcp_url) as made:
        yield made
