"""``acquire``, ``renew``, ``release`` and ``wait``: a lock held by a script, not by a process."""

import json
import subprocess
import sys
import time

import pytest

from tests.cli.shell import eventually


def acquired(shell, *words):
    return shell("acquire", *words, "--json").json


def holder_of(server, name="x"):
    return server.command("GET", f"fencelock:{name}")


# --- acquire --------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_acquire_prints_what_a_shell_can_evaluate(shell, server):
    result = shell("acquire", "it's x", "--ttl", "20s")
    assert result.status == 0
    assert result.err == ""
    code = result.out + 'printf "%s\\n" "$FENCELOCK_NAME" "$FENCELOCK_HOLDER" "$FENCELOCK_FENCE"'
    lines = subprocess.run(["sh", "-c", code], capture_output=True, text=True, check=True).stdout
    name, holder, fence = lines.splitlines()
    assert name == "it's x"
    assert holder_of(server, "it's x") == holder
    assert int(fence) > 0
    assert 19_000 < server.command("PTTL", "fencelock:it's x") <= 20_000


@pytest.mark.parametrize("option", ["--json", "--format=json"])
def test_acquire_prints_json(shell, server, option):
    told = shell("acquire", "x", "--ttl", "20s", option).json
    assert told["holder"] == holder_of(server)
    assert (told["name"], told["ttl"]) == ("x", 20.0)
    assert 15 < told["until"] / 1000 - time.time() <= 20


def test_a_lock_that_is_held_gives_75_and_prints_no_data(shell):
    acquired(shell, "x")
    for wait in (["--no-wait"], ["--wait", "500ms"]):
        result = shell("acquire", "x", *wait)
        assert (result.status, result.out) == (75, "")


def test_acquire_waits_its_turn(shell):
    told = acquired(shell, "x")
    process = shell.start("acquire", "x", "--json")
    shell.in_line()
    assert shell("release", "x", "--holder", told["holder"]).status == 0
    assert process.end() == 0
    assert json.loads(process.out)["fence"] > told["fence"]


def test_the_lease_is_not_renewed(shell):
    acquired(shell, "x", "--ttl", "300ms")
    assert shell("run", "x", "-w", "5s", "--", "true").status == 0


def test_what_nobody_could_read_is_given_back(shell, server):
    process = shell.start("acquire", "x", stdin=subprocess.PIPE)
    process.popen.stdout.close()
    process.popen.stdout = None
    assert process.end() == 141
    assert holder_of(server) is None


def test_commands_work_in_processes_of_their_own(shell):
    """Most tests run these in their own process, where nothing has to be found or started."""

    def said(*words):
        process = shell.start(*words)
        assert (process.end(), process.err) == (0, ""), words
        return process.out

    known = ("--holder", json.loads(said("acquire", "x", "--json"))["holder"])
    assert said("renew", "x", *known) == ""
    for words in (("ls",), ("show", "x"), ("graph", "--json")):
        assert said(*words)
    history = shell.start("history")
    assert history.end() == 0
    assert "nothing is kept" in history.err
    assert said("release", "x", *known) == ""
    for words in (("completion", "bash"), ("help",)):
        assert said(*words)


# --- renew and release ----------------------------------------------------------------------------


def test_renew_sets_the_lease_anew(shell, server):
    told = acquired(shell, "x", "--ttl", "5s")
    result = shell("renew", "x", "--holder", told["holder"], "--ttl", "60s")
    assert (result.status, result.out, result.err) == (0, "", "")
    assert 55_000 < server.command("PTTL", "fencelock:x") <= 60_000
    for ttl in ("90s", "5s"):  # less than it has left changes nothing, and the rest is said
        said = shell("renew", "x", "--holder", told["holder"], "--ttl", ttl, "--json").json
        assert (said["renewed"], said["ttl"]) == (True, float(ttl[:-1]))
        assert said["until"] > (time.time() + 60) * 1000


def test_release_frees_the_lock_and_its_next_in_line_is_granted(shell, server):
    told = acquired(shell, "x")
    assert shell("release", "x", "--holder", told["holder"]).status == 0
    assert holder_of(server) is None
    told = acquired(shell, "x")
    assert shell("release", "x", "--json", "--holder", told["holder"]).json["released"] is True


def test_the_holder_id_may_come_from_the_environment(shell, server):
    env = {"FENCELOCK_HOLDER": acquired(shell, "x")["holder"]}
    assert shell("renew", "x", env=env).status == 0
    assert shell("release", "x", env=env).status == 0
    assert holder_of(server) is None


@pytest.mark.parametrize("command", ["renew", "release"])
def test_nobody_elses_lock_is_touched(shell, server, command):
    old = acquired(shell, "x")
    shell("release", "x", "--holder", old["holder"])
    new = acquired(shell, "x", "--ttl", "20s")
    for holder in (old["holder"], "guessed"):
        result = shell(command, "x", "--holder", holder)
        assert (result.status, result.out) == (76, "")
        assert "'x' is not held by that holder id any more" in result.err
    assert holder_of(server) == new["holder"]
    assert server.command("PTTL", "fencelock:x") <= 20_000


@pytest.mark.parametrize("command", ["renew", "release"])
@pytest.mark.parametrize("holder", ["-n4rQ", "--help", "-h"])
def test_an_id_may_begin_with_a_dash(shell, server, command, holder):
    server.command("SET", "fencelock:x", holder, "PX", 20_000)
    assert shell(command, "x", "--holder", holder).status == 0


@pytest.mark.parametrize("command", ["renew", "release"])
def test_a_revocation_is_told_with_its_reason(shell, command):
    told = acquired(shell, "x")
    shell("revoke", "x", "--reason", "too long", "--yes")
    result = shell(command, "x", "--holder", told["holder"])
    assert result.status == 76
    assert "revoked: too long" in result.err


def test_a_commands_own_holder_id_renews_its_lock(shell, server):
    code = f"{sys.executable} -m fencelock renew x --ttl 50s"
    assert shell("run", "x", "--", "sh", "-c", code).status == 0


# --- wait -----------------------------------------------------------------------------------------


def test_wait_returns_at_once_when_the_lock_is_free(shell, server):
    result = shell("wait", "x")
    assert (result.status, result.out, result.err) == (0, "", "")
    assert holder_of(server) is None


def test_wait_gives_75_when_the_lock_was_not_free_in_time(shell):
    acquired(shell, "x")
    for words in (["-n"], ["-w", "0.5s"]):
        result = shell("wait", "x", *words)
        assert result.status == 75
        assert "was not free" in result.err
    assert shell("wait", "x", "-n", "--json").json["free"] is False


def test_wait_ends_with_the_lock_takes_nothing_and_stands_in_no_line(shell, server):
    told = acquired(shell, "x")
    process = shell.start("wait", "x", "--json")
    eventually(lambda: "waiting for x: held by" in process.popen.stderr.readline(), "the line")
    assert shell("show", "x", "--json").json["waiting"] == 0
    shell("release", "x", "--holder", told["holder"])
    assert process.end() == 0
    assert json.loads(process.out)["free"] is True
    assert holder_of(server) is None


def test_wait_sees_a_lock_of_another_program(shell, server):
    server.command("SET", "fencelock:x", "theirs", "PX", 60_000)
    assert shell("wait", "x", "-n").status == 75
    server.command("PEXPIRE", "fencelock:x", 500)
    assert shell("wait", "x", "-w", "5s").status == 0


def test_what_is_no_lock_is_not_waited_for(shell, server):
    server.command("LPUSH", "fencelock:x", "y")
    result = shell("wait", "x")
    assert result.status == 69
    assert "not a lock" in result.err
