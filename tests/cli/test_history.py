"""``history``, ``ls --watch``, ``completion``, and what was probably meant."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

import fencelock
from fencelock.cli import COMMANDS


def waited_for(shell, name):
    """Leave an entry of a wait for a lock."""
    url, kept = shell.env["FENCELOCK_URL"], fencelock.History(threshold=0.01)
    with fencelock.Client(url, history=kept, label="ann") as client, client.lock(name):
        assert not client.lock(name).acquire(timeout=0.03)


# --- history --------------------------------------------------------------------------------------


def test_history_tells_who_waited_for_what(shell):
    assert shell("history").err == "fencelock: nothing is kept\n"
    waited_for(shell, "orders:42")
    header, *_, line = shell("history").out.splitlines()  # connecting may have taken long, too
    assert header.split() == ["NAME", "WHEN", "WHAT", "WHO", "FOR", "WHY"]
    name, _, when, what, who, label, spent, *why = line.split()
    assert re.fullmatch(r"[\d:]{8}[+-]\d{4}", when)
    assert (name, what, label) == ("orders:42", "waited", "(ann)")
    assert who == f"{os.uname().nodename}:{os.getpid()}"
    assert spent.endswith("s")
    assert why[0] == "timed"
    *_, entry = shell("history", "orders:42", "--since", "1h", "--json").json
    assert (entry["kind"], entry["outcome"]) == ("wait", "timed_out")
    assert entry["held_by"]["pid"] == os.getpid()
    (top,) = shell("history", "orders:*", "--top", "--json").json
    assert (top["name"], top["waits"] >= 1, top["lost"]) == ("orders:42", True, 0)
    assert shell("history", "order?", "--top", "--json").json == []
    assert shell("history", "--until", "1h", "--json").json == []
    shell("acquire", "x")
    assert shell("run", "x", "-w", "0.2s", "--", "true").status == 75
    assert [entry["outcome"] for entry in shell("history", "x", "--json").json] == ["timed_out"]


def test_history_of_a_name_that_is_not_there_names_what_was_meant(shell):
    shell("acquire", "orders:42")
    assert shell("history", "order:42").err == (
        "fencelock: nothing is kept of 'order:42': did you mean orders:42?\n"
    )


# --- ls --watch -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_ls_goes_on_until_it_is_interrupted(shell):
    shell("acquire", "x")
    process = shell.start("ls", "--watch", "--json")
    first, second = (json.loads(process.popen.stdout.readline()) for _ in range(2))
    assert [each["name"] for each in first] == [each["name"] for each in second] == ["x"]
    process.send(signal.SIGINT)
    assert process.end() == 130
    assert shell("ls", "--watch", "--all").status == 64


# --- what was meant -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["run", "x", "--wiat", "3", "--", "true"], "--wait"),
        (["ls", "--jsn"], "--json"),
        (["revoke", "x", "--reason=r", "--olny=x"], "--only"),
        (["histroy"], "`fencelock history`"),
    ],
)
def test_what_was_probably_meant_is_named(shell, words, meant):
    result = shell(*words)
    assert result.status == 64
    assert f"hint: did you mean {meant}?\n" in result.err


def test_a_name_that_is_like_another_is_asked_about(shell):
    shell("acquire", "orders:42")
    assert "did you mean orders:42?" in shell("show", "order:42").err
    assert "did you mean orders:42?" in shell("revoke", "order:42", "--reason", "r", "-y").err
    assert "did you mean" not in shell("show", "orders:42").err
    assert "did you mean" not in shell("show", "other").err


# --- completion -----------------------------------------------------------------------------------


def test_names_are_those_that_begin_with_a_word(shell):
    for name in ("orders:1", "orders:2", "bills", "bad\nname"):
        shell("acquire", name)
    assert shell("completion", "names", "orders:").out.split() == ["orders:1", "orders:2"]
    assert shell("completion", "names").out.split() == ["bills", "orders:1", "orders:2"]
    gone = shell("completion", "names", "--url", "redis://127.0.0.1:1/0")
    assert (gone.status, gone.out) == (0, "")


BASH = """
source <(fencelock completion bash)
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
COMP_LINE=$1 COMP_POINT=${#1}
read -ra COMP_WORDS <<< "$1"
[[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_fencelock
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def complete(shell, tmp_path):
    """Return a function that completes a line as bash does."""
    script = tmp_path / "fencelock"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m fencelock "$@"\n')
    script.chmod(0o755)
    env = shell.env | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def complete(line):
        words = ["bash", "-c", BASH, "bash", line]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split("\n")[:-1]

    return complete


@pytest.mark.parametrize(
    ("kind", "long", "short"), [("fish", "-l wait", "-s q"), ("zsh", "--wait", "-q")]
)
def test_each_script_has_all_commands_and_options(shell, kind, long, short):
    """Also where the shell itself is not installed."""
    done = shell("completion", kind)
    assert (done.status, done.err) == (0, "")
    assert all(command in done.out for command in COMMANDS)
    assert long in done.out
    assert short in done.out


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_commands_options_and_names(shell, complete):
    for name in ("orders:1", "orders:2", "two words"):
        shell("acquire", name)
    assert complete("fencelock hist") == ["history"]
    assert set(complete("fencelock ")) == set(COMMANDS)
    assert complete("fencelock run x --no-w") == ["--no-wait"]
    assert complete("fencelock show orders:") == ["1", "2"]  # what is before the colon stays
    assert complete("fencelock show tw") == ["two\\ words"]
    assert "true" in complete("fencelock run x -- tru")


ASK = {
    "fish": "source {}; complete -C 'fencelock hist'; complete -C 'fencelock run --no-w'",
    "zsh": "autoload -U compinit; compinit -u -D; source {}; print -r -- $_comps[fencelock]",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zsh", "fish"])
def test_other_shells_read_their_script(shell, kind, tmp_path):
    if shutil.which(kind) is None:
        pytest.skip(f"there is no {kind} here")
    script = tmp_path / "script"
    script.write_text(shell("completion", kind).out)
    checked = subprocess.run([kind, "-n", script], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    asked = [kind, "-c", ASK[kind].format(script)]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    found = {line.split("\t")[0] for line in done.stdout.splitlines()}
    assert {"history", "--no-wait"} <= found or found == {"_fencelock"}
