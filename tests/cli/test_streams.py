"""Commands whose standard streams are closed, as cron's and daemons' may be, or dead."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from fencelock.cli.output import fitted
from tests.cli.shell import FENCELOCK

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


@pytest.mark.parametrize("busy", [False, True], ids=["free", "waits"])
@pytest.mark.parametrize(
    "words", [("run", "x", "-v", "--json", "--"), ("once", "x", "-v", "--within", "1h", "--")]
)
def test_a_dead_stderr_keeps_no_command_from_running(shell, tmp_path, words, busy):
    if busy:
        shell("acquire", "x", "--ttl", "1s")
        words = (*words[:2], "-w", "20s", *words[2:])
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = shell.start(*words, "touch", tmp_path / "ran", stderr=writing)
    finally:
        os.close(writing)
    assert process.popen.wait(20) == 0
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "words",
    [("ls",), ("ls", "--json"), ("ls", "--help"), ("--version",), ("doctor",), ("acquire", "y")],
    ids=" ".join,
)
def test_a_full_disk_is_said_and_leaves_nothing_held(shell, words):
    shell("acquire", "x")
    with Path("/dev/full").open("w") as full:
        process = shell.start(*words, stdout=full)
        _, err = process.popen.communicate(timeout=20)
    assert process.popen.returncode == 74
    assert err.endswith("fencelock: cannot write: No space left on device\n")
    assert "Traceback" not in err
    assert [each["name"] for each in shell("ls", "--json").json] == ["x"]


# Ctrl-C as an import begins: of the module that is named.
STRUCK = """
import os, signal, sys

struck = sys.argv[1]

class Striking:
    def find_spec(self, name, *_):
        if name == struck:
            os.kill(os.getpid(), signal.SIGINT)

sys.modules.pop(struck, None)
sys.meta_path.insert(0, Striking())
sys.orig_argv[1:3], sys.argv[0] = ("-m", "fencelock"), "-m"
from fencelock.cli import main
sys.argv[1] = "ls"
main()
"""


@pytest.mark.parametrize("module", ["fencelock.errors", "fencelock.cli", "fencelock.cli.arguments"])
def test_ctrl_c_while_it_starts_leaves_no_traceback(shell, module):
    ended = subprocess.run(
        [sys.executable, "-c", STRUCK, module], env=shell.env, capture_output=True, check=False
    )
    assert ended.returncode in {-signal.SIGINT, 128 + signal.SIGINT}
    assert ended.stderr == b""


def test_ls_fits_any_terminal_and_a_program_reads_names_whole(shell):
    name, chinese = "name-" * 100, "订单" * 30
    for each in (f"{name}1", f"{name}2", "short", chinese):
        shell("acquire", each, "--label", "ann")
    piped = shell("ls").out.splitlines()
    assert {f"{name}1", f"{name}2", chinese} < {line.split()[0] for line in piped}
    assert len(next(line for line in piped if line.startswith("short"))) < 200
    for width in (60, 80, 100, 120):
        lines = on_terminal(shell, width, "ls")
        assert all(sum(1 + ("一" <= char <= "鿿") for char in line) <= width for line in lines)
        assert [line.split()[0][-1] for line in lines if line.startswith("name-")] == ["1", "2"]
        assert all("held" in line and "WAITING" in lines[0] for line in lines[1:])
        assert width != 60 or "FENCE" not in lines[0]
        assert width != 120 or "FENCE" in lines[0]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_name_that_stdout_cannot_encode_is_escaped(shell, encoding):
    shell("acquire", "é☃", "--label", "😀")
    env = shell.env | {"PYTHONIOENCODING": encoding}
    for words in (("ls",), ("show", "é☃"), ("ls", "--json")):
        done = subprocess.run(
            [*FENCELOCK, *words], env=env, check=False, capture_output=True, timeout=20
        )
        assert done.returncode == 0, done
        assert b"\\u2603" in done.stdout
    assert json.loads(done.stdout)[0]["name"] == "é☃"


def test_an_instant_is_whole_however_narrow_the_terminal_is():
    lines = [["NAME", "WHEN", "WHO"], ["orders:42", "11-26 03:12:04", "web-1:4121"]]
    assert fitted(lines, 30)[1] == ["ord…42", "11-26 03:12:04", "web…21"]


def on_terminal(shell, width, *words):
    """Return the lines that a command prints on a terminal of a width."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, width))
    process = shell.start(*words, stdout=slave)
    os.close(slave)
    printed = b""
    with os.fdopen(master, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # its end
        while said := terminal.read(65536):
            printed += said
    assert process.popen.wait(20) == 0
    return printed.decode().splitlines()
