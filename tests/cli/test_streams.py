"""Commands whose standard streams are closed, as cron's and daemons' may be, or dead."""

import os
import pty
import subprocess

import pytest

from tests.cli.shell import FENCELOCK, eventually

NAMES = {0: "<&-", 1: ">&-", 2: "2>&-"}
CLOSED = [(0,), (1,), (2,), (0, 1), (0, 1, 2)]


def without(fds, *words):
    """Return a command that starts fencelock with these streams closed."""
    return ["sh", "-c", f'exec "$@" {" ".join(NAMES[fd] for fd in fds)}', "sh", *FENCELOCK, *words]


@pytest.mark.parametrize("fds", CLOSED, ids=str)
def test_run_works_with_closed_streams(shell, tmp_path, fds):
    script = f"cat; echo out; echo err >&2; touch {tmp_path}/ran; exit 3"
    done = subprocess.run(
        without(fds, "run", "x", "-v", "--", "sh", "-c", script),
        env=shell.env,
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 3, done
    assert (tmp_path / "ran").exists()
    assert done.stdout == ("" if 1 in fds else "out\n")
    assert ("err\n" in done.stderr) is (2 not in fds)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words", [("run", "x", "-v", "--json", "--"), ("once", "x", "-v", "--within", "1h", "--")]
)
def test_a_dead_stderr_does_not_keep_the_command_from_running(shell, tmp_path, words):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = shell.start(*words, "touch", tmp_path / "ran", stderr=writing)
    finally:
        os.close(writing)
    assert process.popen.wait(20) == 0
    assert (tmp_path / "ran").exists()


def test_a_dead_stderr_does_not_end_a_wait(shell):
    shell("acquire", "x", "--ttl", "1s")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = shell.start("run", "x", "--", "true", stderr=writing)
    finally:
        os.close(writing)
    assert process.popen.wait(20) == 0


def test_a_terminal_sees_long_names_cut_and_a_program_sees_them_whole(shell):
    name = "name-" * 40
    shell("acquire", name)
    shell("acquire", "short")
    assert name in shell("ls").out
    master, slave = pty.openpty()
    try:
        process = shell.start("ls", stdout=slave)
        os.close(slave)
        printed = bytearray()

        def all_printed():
            printed.extend(os.read(master, 65536))
            return b"short" in printed and printed.count(b"\n") >= 3

        eventually(all_printed, "the table")
        assert process.popen.wait(20) == 0
    finally:
        os.close(master)
    lines = printed.decode().splitlines()
    assert "…" in printed.decode()
    assert name not in printed.decode()
    assert max(map(len, lines)) < len(name)
