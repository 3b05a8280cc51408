"""Every process of a user finds the same directory, and nobody else can put a server there."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from fencelock.embedded import ensure, liveness_lock, runtime_dir, status, stop, url
from fencelock.embedded.runtime_dir import find
from fencelock.errors import ServerDenied, ServerUnreachable
from tests.embedded.world import mount_for_us, race
from tests.waiting import until

NOBODY = 65534
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096  # <sys/mount.h> of Linux


@pytest.fixture
def home(world, monkeypatch):
    """A home for a user, with the directory not overridden."""
    monkeypatch.delenv("FENCELOCK_DIR")
    folder = world.directory / "home"
    folder.mkdir()
    return folder


def default(world, home):
    return Path(runtime_dir._default(os.geteuid(), str(home), str(world.directory)))


def spare(world):
    return world.directory / f"fencelock-{os.geteuid()}"


def test_the_override_is_respected(world):
    assert ensure() == f"unix://{world.here}/server.sock?db=0" == url()
    assert (world.here / "server.sock").is_socket()


def test_the_override_must_be_absolute(world, monkeypatch):
    monkeypatch.setenv("FENCELOCK_DIR", "state")
    with pytest.raises(ValueError, match="absolute"):
        ensure()


def test_two_spellings_of_a_directory_are_one_place(world, monkeypatch):
    (world.directory / "link").symlink_to(world.here)
    ensure()
    monkeypatch.setenv("FENCELOCK_DIR", str(world.directory / "link"))
    assert ensure(timeout=0) == f"unix://{world.here}/server.sock?db=0"


def test_the_default_is_in_the_home_and_keyed_by_the_machine(world, home):
    assert default(world, home) == home / ".local/state/fencelock" / runtime_dir.machine()


def test_the_environment_does_not_move_the_default(world, home, monkeypatch):
    before = url()
    for name in ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "TMPDIR", "USER", "LOGNAME"):
        monkeypatch.setenv(name, str(world.directory))
    monkeypatch.chdir(world.directory)
    runtime_dir.home.cache_clear()
    runtime_dir.machine.cache_clear()
    assert url() == before


def test_a_user_without_a_home_has_the_spare_directory(world, home):
    assert default(world, world.directory / "missing") == spare(world)
    assert default(world, "") == spare(world)
    assert runtime_dir.home(4_000_000_000 - 1) == ""


def test_a_home_that_we_cannot_write_gives_way_to_the_spare_directory(world, home):
    home.chmod(0o500)
    if os.geteuid() == 0:
        (found,) = race(1, lambda: as_nobody(world, home))
        assert found == str(world.directory / f"fencelock-{NOBODY}")
    else:
        assert default(world, home) == spare(world)


def as_nobody(world, home):
    os.setuid(NOBODY)
    return runtime_dir._default(NOBODY, str(home), str(world.directory))


def test_a_server_that_lives_in_the_spare_directory_is_the_one(world, home):
    spare(world).mkdir(mode=0o700)
    assert default(world, home) != spare(world)
    with liveness_lock.take(str(spare(world) / "alive")):
        assert default(world, home) == spare(world)
    assert default(world, home) != spare(world)


@pytest.fixture
def machine(world, home, monkeypatch):
    """Lend what names this machine; the default directory is in a home and a spare of the test."""
    monkeypatch.setattr(runtime_dir, "home", lambda _uid: str(home))
    monkeypatch.setattr(runtime_dir, "_SPARE", str(world.directory))

    def named(name):
        monkeypatch.setattr(runtime_dir, "machine", lambda: name)
        return home / ".local/state/fencelock" / name

    yield named
    assert stop() in {True, False}


def test_a_server_is_found_under_another_name_of_the_machine(machine):
    office = machine("office")
    url = ensure()
    machine("train")
    assert ensure() == url
    assert status().directory == str(office)
    assert stop()


def test_what_a_server_stored_last_is_found_under_another_name_of_the_machine(machine, world):
    office = machine("office")
    ensure()
    sockets = shutil.ignore_patterns("*.sock")
    for number, name in enumerate(("attic", "store"), 1):  # what it was called before that
        shutil.copytree(office, office.with_name(name), ignore=sockets)
        os.utime(office.with_name(name) / "server.log", (number, number))
    world.ask("SET", "kept", "yes")
    os.kill(status().pid, signal.SIGKILL)
    until(lambda: not status().running)
    machine("train")
    ensure()
    assert world.ask("GET", "kept") == b"yes"


def test_a_server_of_another_machine_that_shares_the_home_is_left_alone(machine, monkeypatch):
    far, near = machine("far"), machine("near")
    far.mkdir(parents=True)
    with liveness_lock.take(str(far / "alive")):
        assert status().directory == str(far)
        (far / "alive").write_bytes(b"another kernel")
        assert ensure() == f"unix://{near}/server.sock?db=0"


def test_of_two_that_start_in_different_directories_one_gives_way(machine, world):
    """One saw no home, and its claim is in the spare directory."""
    own = machine("here")
    spare(world).mkdir(mode=0o700)
    with (
        liveness_lock.take(str(spare(world) / "alive")),
        pytest.raises(ServerUnreachable, match="alive"),
    ):
        ensure(timeout=0.1)
    paths = find(create=True)
    assert paths.directory == str(own)
    with liveness_lock.take(paths.alive):
        assert not runtime_dir.lives_elsewhere(paths)
        with liveness_lock.take(str(spare(world) / "alive")):
            assert runtime_dir.lives_elsewhere(paths)
            assert runtime_dir.lives_elsewhere(paths._replace(directory=str(spare(world))))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_server_in_a_home_that_we_cannot_write_is_the_one(machine, home):
    own = machine("here")
    url = ensure()
    (seen,) = race(1, lambda: read_only(home) or [ensure(timeout=5), status().directory])
    assert seen == [url, str(own)]
    assert stop()
    (seen,) = race(1, lambda: read_only(home) or ensure(timeout=5))
    assert "Read-only file system; an embedded server can be started only by" in seen["error"]


def read_only(folder):
    """Show this process a folder as one that cannot be written."""
    path = os.fsencode(folder)
    mount_for_us(
        (path, path, None, MS_BIND), (b"none", path, None, MS_BIND | MS_REMOUNT | MS_RDONLY)
    )


def test_the_directory_is_made_for_us_alone(world):
    ensure()
    assert world.here.stat().st_mode & 0o777 == 0o700
    assert {one.name: one.stat().st_mode & 0o077 for one in world.here.iterdir()} == {
        one.name: 0 for one in world.here.iterdir()
    }


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_directory_that_others_can_write_is_refused(world, mode):
    world.here.mkdir()
    world.here.chmod(mode)
    for use in (ensure, status, stop, url):
        with pytest.raises(ServerDenied, match=f"chmod 700 {world.here}"):
            use()
    assert list(world.here.iterdir()) == []


def test_nobody_is_told_to_close_a_directory_that_all_users_share(world):
    world.here.mkdir()
    world.here.chmod(0o1777)
    with pytest.raises(ServerDenied, match="is shared by all users: set FENCELOCK_DIR to") as error:
        ensure()
    assert "chmod" not in str(error.value)


def test_a_directory_of_somebody_else_is_refused(world):
    world.here.mkdir(mode=0o700)
    stranger = os.geteuid() + 1
    with pytest.raises(ServerDenied, match=f"not to user {stranger}.*FENCELOCK_DIR"):
        runtime_dir._secure(str(world.here), stranger, create=True)


def test_a_link_in_a_shared_directory_is_not_followed(world, home):
    spare(world).symlink_to(home)
    with pytest.raises(ServerDenied, match="not a directory"):
        runtime_dir._secure(str(spare(world)), os.geteuid(), create=True)


def test_a_file_in_the_place_of_the_directory_is_refused(world):
    world.here.write_text("")
    with pytest.raises(ServerDenied, match="not a directory"):
        ensure()


def test_a_directory_that_cannot_be_made_is_an_error_of_ours(world, monkeypatch):
    world.here.write_text("")
    monkeypatch.setenv("FENCELOCK_DIR", str(world.here / "below"))
    with pytest.raises(ServerDenied, match="cannot make"):
        ensure()


def test_a_path_too_long_for_a_socket_gets_a_short_one(world, monkeypatch):
    deep = world.directory / ("d" * 100)
    monkeypatch.setenv("FENCELOCK_DIR", str(deep))
    short = Path(urlsplit(ensure()).path)
    try:
        assert len(os.fsencode(short)) <= runtime_dir.SOCKET_BYTES_MAX
        assert short.parent.stat().st_mode & 0o777 == 0o700
        assert (deep / "alive").exists()
        assert stop()
        short.parent.chmod(0o777)
        with pytest.raises(ServerDenied, match="other users can write"):
            ensure()
    finally:
        shutil.rmtree(short.parent)


@pytest.mark.parametrize("length", [99, 100, 101])
def test_the_socket_is_short_enough_by_one_byte(length):
    directory = "/" + "d" * (length - len("//server.sock"))
    found = runtime_dir._socket(directory, 1, create=False)
    assert len(found) <= 100
    assert (str(Path(found).parent) == directory) == (length <= 100)


def test_any_path_survives_the_url(world, monkeypatch):
    odd = world.directory / "a b%20c?d#eé"
    monkeypatch.setenv("FENCELOCK_DIR", str(odd))
    parts = urlsplit(ensure())
    assert unquote(parts.path) == str(odd / "server.sock")
    assert parts.query == "db=0"
    assert stop()
