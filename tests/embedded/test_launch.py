"""What the server takes with it from whoever starts it: the lock, and nothing else."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import fencelock
from fencelock.embedded import ensure, find_binary, inheritance, launch, liveness_lock, runtime_dir
from fencelock.embedded.runtime_dir import find
from fencelock.errors import ServerUnreachable
from tests.embedded.world import mount_for_us, race

BROKEN = """
case $1 in
--version) echo "Redis server v=7.0.0" ;;
*) echo started >> "$0.count"; echo "Fatal: the disk says no" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def stray():
    """An open file of ours that any child would inherit."""
    fd = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(fd, True)
    yield fd
    os.close(fd)


def test_a_program_that_does_not_start_is_an_error_with_its_last_words(world):
    world.program("redis-server", BROKEN)
    with pytest.raises(ServerUnreachable, match="ended while starting") as caught:
        ensure()
    assert "Fatal: the disk says no" in str(caught.value)
    count = (world.directory / "bin" / "redis-server.count").read_text().count("started")
    assert 1 < count <= 5


def test_old_words_of_the_log_are_not_taken_for_new_ones(world):
    ensure()
    world.kill()
    world.program("redis-server", BROKEN)
    (world.here / "appendonly.aof").touch()
    with pytest.raises(ServerUnreachable) as caught:
        ensure()
    said = [line.strip() for line in str(caught.value).splitlines()[1:]]
    theirs = [line for line in said if not line.startswith("fencelock: ")]  # of a low priority, too
    assert theirs == ["Fatal: the disk says no"]


def test_a_damaged_log_of_data_is_named_by_the_server(world, binary):
    world.use(binary)
    ensure()
    world.ask("SET", "some", "thing")
    world.kill()
    for log in world.here.glob("**/*.aof"):
        log.write_bytes(b"*3\r\n$3\r\nSET\r\n:::broken:::\r\n$1\r\nx\r\n")
    with pytest.raises(ServerUnreachable, match="Bad file format"):
        ensure()


def test_the_start_is_logged_once(world, caplog):
    with caplog.at_level(logging.INFO, logger="fencelock"):
        ensure()
        ensure()
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert str(world.here) in record.getMessage()
    assert str(world.only) in record.getMessage()


def test_the_server_inherits_the_lock_and_no_other_file(world, binary, stray):
    world.use(binary)
    ensure()
    files = Path(f"/proc/{world.only}/fd")
    held = {str(one.readlink()) for one in files.iterdir()}
    of_ours = {one for one in held if not one.startswith(("socket:", "anon_inode:", "pipe:"))}
    assert str(world.here / "alive") in of_ours
    assert {Path(one).name for one in of_ours} <= {
        "alive",
        "server.log",
        "null",
        "urandom",
        "appendonly.aof",
        "appendonly.aof.1.incr.aof",
    }
    assert not (files / str(stray)).is_symlink() or not is_null(files / str(stray))


def is_null(link):
    return str(link.readlink()) == "/dev/null"


def test_the_server_belongs_to_no_process_and_no_terminal_of_ours(world):
    ensure()
    parent, _group, session = (
        Path(f"/proc/{world.only}/stat").read_text().rsplit(") ")[1].split()[1:4]
    )
    assert int(parent) != os.getpid()
    assert int(session) != os.getsid(0)
    with pytest.raises(ChildProcessError):
        os.waitpid(world.only, os.WNOHANG)


def test_the_server_outlives_its_starter_and_its_starters_group(world):
    def start_and_die():
        os.setpgid(0, 0)
        ensure()
        os.killpg(0, signal.SIGKILL)

    assert race(1, start_and_die) == [None]
    assert len(world.servers) == 1
    assert world.ask("PING") == b"PONG"


NICENESS = min(19, os.nice(0) + 3)  # these tests may have less than others already


def burdened():
    """Start the server as a batch job would; return its log, and what was warned of."""
    os.nice(3)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CPU, (3600, 7200))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, resource.RLIM_INFINITY))
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    warned: list[logging.LogRecord] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = warned.append
    logging.getLogger("fencelock").addHandler(handler)
    ensure()
    lines = Path(find(create=False).log).read_text().splitlines()
    return lines, [record.getMessage() for record in warned]


def limit_of(pid, name):
    """Return the soft limit of a process."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line[len(name) :].split()[0] for line in lines if line.startswith(name))


def test_the_server_is_freed_of_what_its_starter_has(world, binary):
    """What only root may lift is said instead."""
    world.use(binary)
    ((lines, warned),) = race(1, burdened)
    pid, said = world.only, [line for line in lines if line.startswith(inheritance.KEEPS)]
    facts = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    assert int(facts["SigBlk"], 16) == 0
    assert not int(facts["SigIgn"], 16) >> (signal.SIGCHLD - 1) & 1
    assert limit_of(pid, "Max file size") == "unlimited"
    assert os.sched_getscheduler(pid) == os.SCHED_OTHER
    kept = {f"niceness {NICENESS}": os.getpriority(os.PRIO_PROCESS, pid) == NICENESS}
    kept["RLIMIT_CPU 7200"] = limit_of(pid, "Max cpu time") == "7200"
    assert {text: text in "".join(said) for text in kept} == kept
    assert len(said) == len(warned) == any(kept.values())


def test_a_server_that_cannot_be_freed_starts_and_says_so(world, monkeypatch):
    """The interpreter cannot run for its user, or there is none."""
    monkeypatch.setattr(inheritance, "SHEDDING", ("/bin/false",))
    ((lines, warned),) = race(1, burdened)
    (said,) = [line for line in lines if line.startswith(inheritance.KEEPS)]
    assert said.endswith(
        f"blocked signals [10, 15]; ignored signals [17]; niceness {NICENESS}; scheduling policy 3;"
        f" RLIMIT_CPU 3600; RLIMIT_FSIZE {1 << 30}"
    )
    assert len(warned) == 1


@pytest.mark.skipif(bool(os.nice(0)), reason="these tests have a niceness themselves")
def test_a_starter_without_burdens_starts_the_program_itself(world):
    assert not inheritance.burdens()
    assert race(1, lambda: ensure() and Path(find(create=False).log).read_text().split()[0]) != [
        inheritance.KEEPS.split()[0]
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_is_named(world, binary):
    world.use(binary)
    world.here.mkdir(mode=0o700)

    def start_on_a_full_disk():
        mount_for_us((b"none", os.fsencode(world.here), b"tmpfs", 0))
        world.here.chmod(0o700)
        with contextlib.suppress(OSError), (world.here / "other").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        with fencelock.Client().lock("orders"):  # Redis 6.2 starts, and refuses writes
            pass

    (seen,) = race(1, start_on_a_full_disk)
    named = f"the disk of {world.here} is full", "it cannot save to its disk"
    assert any(text in seen["error"] for text in named), seen["error"]


def test_the_server_carries_no_secret_of_ours(world, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "hush")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    program = BROKEN.replace("echo started", "/usr/bin/env").replace(".count", ".environ")
    world.program("redis-server", program)
    with pytest.raises(ServerUnreachable):
        ensure()
    carried = (world.directory / "bin" / "redis-server.environ").read_text()
    assert "hush" not in carried
    assert "LC_ALL=C\n" in carried


def test_the_server_listens_on_its_socket_alone(world, binary):
    world.use(binary)
    ensure()
    assert (world.here / "server.sock").stat().st_mode & 0o777 == 0o600
    settings = {
        "port": b"0",
        "appendonly": b"yes",
        "appendfsync": b"no",
        "save": b"",
        "maxmemory-policy": b"noeviction",
        "aof-use-rdb-preamble": b"no",
    }
    for name, value in settings.items():
        assert setting(world, name) == value


def setting(world, name):
    """Return a setting; the reply is an array of name and value."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(world.place.socket)
        line.sendall(b"CONFIG GET %b\r\n" % name.encode())
        return line.recv(4096).split(b"\r\n")[4]


def test_a_long_log_begins_anew(world, monkeypatch):
    monkeypatch.setattr(launch, "_LOG_BYTES_MAX", 10)
    ensure()
    world.kill()
    ensure()
    assert world.starts == 1


def test_without_a_shell_the_error_is_ours(world, monkeypatch):
    def missing(*_args, **_options):
        raise FileNotFoundError(2, "No such file or directory", "/bin/sh")

    found, binary = runtime_dir.find(create=True), find_binary()
    monkeypatch.setattr(launch.subprocess, "run", missing)
    with pytest.raises(ServerUnreachable, match="cannot start"):
        launch.spawn(found, binary, 0, 0.0)


CLOSED = ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"]
ENSURE = "from fencelock import embedded; embedded.ensure()"


@pytest.mark.parametrize("closed", CLOSED)
def test_a_starter_without_standard_streams_starts_the_one_server(world, closed):
    """The server would have got the lock's descriptor as its own stream, and lost the lock."""
    command = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", ENSURE]
    for _ in range(3):
        subprocess.run(command, check=True, timeout=20)
    assert liveness_lock.held(world.place.alive)
    assert len(world.servers) == 1
    assert world.starts == 1
