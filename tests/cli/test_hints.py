"""The line below an error: what can be done about it, and nothing that does not help."""

import pytest

from fencelock.cli import main
from fencelock.cli.exits import hint_for
from fencelock.errors import NotAcquired, ServerDenied, ServerUnreachable, ServerUnsuitable


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (NotAcquired("busy", name="orders:42"), "`fencelock show orders:42` shows the holder"),
        (NotAcquired("busy", name="a b"), "`fencelock show 'a b'` shows the holder"),
        (NotAcquired("busy", name="a\x1b[31m"), "`fencelock show NAME` shows the holder"),
        (ServerUnsuitable("the key of 'x' holds something that is not a lock"), ""),
        (ServerUnsuitable("out of memory", code="OOM"), "`fencelock doctor` shows what is wrong"),
        (ServerDenied("wants a password", code="NOAUTH"), "redis://user:password@host:6379/0"),
        (ServerDenied("wrong", code="WRONGPASS"), "redis://user:password@host:6379/0"),
        (
            ServerDenied("may not", code="NOPERM"),
            "`fencelock doctor` prints the permissions that are needed",
        ),
        (ServerDenied("/tmp is shared by all users"), ""),
        (
            ServerUnsuitable("a semaphore", code="WRONGTYPE"),
            "`fencelock show` shows what the name is used for",
        ),
        (ServerUnreachable("refused"), "`fencelock doctor` shows what is wrong"),
    ],
)
def test_the_hint_fits_the_error(error, hint):
    assert hint_for(error) == hint


@pytest.mark.parametrize("words", [["-v", "ls"], ["--url", "redis://h", "ls"]])
def test_an_option_before_the_command_is_told_where_it_belongs(words, capsys):
    assert main(words) == 64
    assert capsys.readouterr().err.splitlines() == [
        f"fencelock: {words[0]} comes before the command",
        "hint: options come after it: fencelock COMMAND [options]",
    ]


def test_a_password_that_is_missing_is_all_that_doctor_tells(shell, own_server):
    own_server.command("CONFIG", "SET", "requirepass", "secret")
    result = shell("doctor", "--json", "--url", own_server.url)
    (only,) = [each for each in result.json["checks"] if each["what"] != "python"]
    assert (result.status, only["level"], only["what"]) == (1, "FAIL", "server")
    assert "NOAUTH" in only["found"]
    denied = shell("ls", "--url", own_server.url)
    assert denied.status == 77
    assert "hint: redis://user:password@" in denied.err
