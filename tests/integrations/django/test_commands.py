"""Commands and migrations under locks, as processes on SQLite and PostgreSQL."""

import pytest

pytest.importorskip("django")

from tests.integrations.django.conftest import SECONDS, until


def begun(server, count=1, key="began"):
    return until(lambda: server.command("LLEN", key) >= count, f"{count} of {key}")


# --- commands -------------------------------------------------------------------------------------


def test_a_second_run_of_a_command_fails_and_names_the_first(manage, run, server):
    first = manage("load", "--account=7")
    begun(server)
    status, _, errors = run("load", "--account=7")
    assert status == 75
    assert f":{first.pid} (manage.py load)" in errors

    other = manage("load", "--account=8")
    begun(server, 2)
    for key in ("go:7", "go:8"):
        server.command("RPUSH", key, "on")
    ends = [each.communicate(timeout=SECONDS) for each in (first, other)]
    assert (first.returncode, other.returncode) == (0, 0), ends


def test_a_command_can_skip_and_says_so(manage, run, server):
    first = manage("tidy")
    begun(server)
    status, output, errors = run("tidy")
    assert (status, output) == (0, "")
    assert "skipped: 'command:tidy' is held by" in errors
    server.command("RPUSH", "go:tidy", "on")
    assert first.wait(SECONDS) == 0
    assert server.command("LLEN", "began") == 1


def test_a_command_can_wait_for_the_one_before(manage, server, client):
    first = manage("bill")
    begun(server)
    second = manage("bill")
    until(lambda: client.status("bill").waiting == 1, "the second in line")
    server.command("RPUSH", "go:bill", "on")
    assert first.wait(SECONDS) == 0
    begun(server, 2)
    server.command("RPUSH", "go:bill", "on")
    assert second.wait(SECONDS) == 0


def test_a_loss_stops_the_command(manage, server, client):
    first = manage("load")
    begun(server)
    client.revoke("load:1", reason="for the test")
    _, errors = first.communicate(timeout=SECONDS)
    assert first.returncode == 76
    assert "stopped" in errors
    assert "for the test" in errors
    assert server.command("LLEN", "ended") == 0


# --- migrations -----------------------------------------------------------------------------------


def test_of_all_that_migrate_at_once_one_does(manage, server, database, client):
    starts = [manage("migrate", "--locked", SHOP_SLOW="1", **database) for _ in range(4)]
    name = f"migrate:{database['SHOP_DATABASE']}"
    begun(server, key="migrated")
    until(lambda: client.status(name).waiting == 3, "the others in line")
    server.command("RPUSH", "go", "on")
    outputs = [each.communicate(timeout=SECONDS) for each in starts]

    assert [each.returncode for each in starts] == [0, 0, 0, 0], outputs
    assert server.command("LLEN", "migrated") == 1
    assert sorted("All migrations are applied." in out for out, _ in outputs) == [
        False,
        True,
        True,
        True,
    ]


def test_migrating_through_pgbouncer_takes_no_lock_of_the_database(
    manage, server, pgbouncer, postgresql_folder, client
):
    psycopg, name = pytest.importorskip("psycopg"), "shop_pooled"
    with psycopg.connect(host=str(postgresql_folder), user="postgres", autocommit=True) as direct:
        direct.execute(f"CREATE DATABASE {name}")
        environment = {**pgbouncer, "SHOP_DATABASE": name}
        starts = [manage("migrate", "--locked", SHOP_SLOW="1", **environment) for _ in range(3)]
        begun(server, key="migrated")
        until(lambda: client.status(f"migrate:{name}").waiting == 2, "the others in line")
        locks = direct.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        assert locks.fetchone() == (0,)
        server.command("RPUSH", "go", "on")
        outputs = [each.communicate(timeout=SECONDS) for each in starts]

    assert [each.returncode for each in starts] == [0, 0, 0], outputs
    assert server.command("LLEN", "migrated") == 1


def test_without_anything_to_migrate_no_lock_is_asked_for(run, database, client):
    assert run("migrate", "--locked", **database)[0] == 0
    with client.lock(f"migrate:{database['SHOP_DATABASE']}"):
        status, output, _ = run("migrate", "--locked", **database)
    assert (status, output) == (0, "All migrations are applied.\n")


def test_the_wait_for_a_migration_is_bounded(run, client, tmp_path):
    path = str(tmp_path / "new.sqlite3")
    with client.lock(f"migrate:{path}", label="a person"):
        status, _, errors = run("migrate", "--locked", "--lock-timeout=0.1", SHOP_DATABASE=path)
    assert status == 75
    assert "(a person)" in errors


def test_without_the_option_it_is_the_usual_migrate(run, database, client):
    with client.lock(f"migrate:{database['SHOP_DATABASE']}"):
        assert run("migrate", **database)[0] == 0


def test_no_model_lacks_its_migration(run, tmp_path):
    path = str(tmp_path / "new.sqlite3")
    words = ("makemigrations", "fencelock", "--check", "--dry-run")
    status, output, errors = run(*words, SHOP_DATABASE=path)
    assert status == 0, output + errors


def test_the_setting_is_checked(run):
    assert run("check", "--fail-level=WARNING")[0] == 0
    status, _, errors = run("check", "--fail-level=WARNING", FENCELOCK_URL="http://host")
    assert status == 1
    assert "fencelock.E001" in errors
