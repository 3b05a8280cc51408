"""_io/wire.py: what each error reply means, on every server that says it."""

import pytest

from fencelock import ServerDenied, ServerError, ServerReadOnly, ServerUnreachable, ServerUnsuitable
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.terms import Terms
from fencelock._io.wire import (
    INCOMPLETE,
    Push,
    ReplyError,
    pack,
    pack_call,
    pack_source,
    reader,
    server_error,
)
from fencelock.options import LeaseOptions
from fencelock.scripts import ACQUIRE, RELEASE
from fencelock.scripts.constants import RECORD_MS

# As Redis 6.2 wraps what happens inside a script, and as 7.0 and Valkey mark it.
WRAPPED = "ERR Error running script (call to f_0123): @user_script:94: {} "
MARKED = "{} script: 0123, on @user_script:94."

REPLIES = [
    ("NOAUTH Authentication required.", ServerDenied, "NOAUTH"),
    ("WRONGPASS invalid username-password pair or user is disabled.", ServerDenied, "WRONGPASS"),
    ("ERR invalid password", ServerDenied, "WRONGPASS"),
    ("NOPERM this user has no permissions to run the 'evalsha' command", ServerDenied, "NOPERM"),
    (
        "ERR The user executing the script can't run this command or subcommand",
        ServerDenied,
        "NOPERM",
    ),
    ("ERR The user executing the script can't access at least one", ServerDenied, "NOPERM"),
    ("READONLY You can't write against a read only replica.", ServerReadOnly, "READONLY"),
    ("NOREPLICAS Not enough good replicas to write.", ServerReadOnly, "NOREPLICAS"),
    ("MISCONF Redis is configured to save RDB snapshots", ServerReadOnly, "MISCONF"),
    (
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        ServerUnsuitable,
        "WRONGTYPE",
    ),
    (
        "OOM command not allowed when used memory > 'maxmemory'.",
        ServerUnsuitable,
        "OOM",
    ),
    ("NOPROTO unsupported protocol version", ServerUnsuitable, "NOPROTO"),
    ("ERR unknown command `HELLO`, with args beginning with:", ServerUnsuitable, "NOPROTO"),
    ("ERR unknown command 'HELLO'", ServerUnsuitable, "NOPROTO"),
    ("MOVED 3999 127.0.0.1:6381", ServerUnsuitable, "MOVED"),
    ("ASK 3999 127.0.0.1:6381", ServerUnsuitable, "ASK"),
    ("CROSSSLOT Keys in request don't hash to the same slot", ServerUnsuitable, "CROSSSLOT"),
    ("UNKILLABLE Sorry the script already executed write commands", ServerUnsuitable, "UNKILLABLE"),
    ("BUSY Redis is busy running a script.", ServerUnreachable, "BUSY"),
    ("LOADING Redis is loading the dataset in memory", ServerUnreachable, "LOADING"),
    ("MASTERDOWN Link with MASTER is down", ServerUnreachable, "MASTERDOWN"),
    ("CLUSTERDOWN The cluster is down", ServerUnreachable, "CLUSTERDOWN"),
    ("TRYAGAIN Multiple keys request during rehashing of slot", ServerUnreachable, "TRYAGAIN"),
    ("ERR max number of clients reached", ServerUnreachable, "MAXCLIENTS"),
]
IN_SCRIPTS = [row for row in REPLIES if row[2] in {"WRONGTYPE", "OOM", "READONLY", "NOREPLICAS"}]


@pytest.mark.parametrize(("text", "kind", "code"), REPLIES)
def test_each_reply_has_its_error(text, kind, code):
    error = server_error(ReplyError(text))
    assert (type(error), error.code) == (kind, code)
    assert text in str(error)
    assert isinstance(error.__cause__, ReplyError)


@pytest.mark.parametrize("command", ["EVAL", "EVALSHA", "SUBSCRIBE"])
@pytest.mark.parametrize("quote", ["'", "`"])
def test_a_command_that_a_server_does_not_have_is_named_without_its_arguments(command, quote):
    told = f"ERR unknown command {quote}{command}'"
    error = server_error(ReplyError(f"{told}, with args beginning with: 'return secret' '1'"))
    assert type(error) is ServerUnsuitable
    assert "`wait=Poll()`" in str(error)
    assert "secret" not in str(error)
    assert told in str(error)


@pytest.mark.parametrize("form", [WRAPPED, MARKED], ids=["6.2", "7.0"])
@pytest.mark.parametrize(("text", "kind", "code"), IN_SCRIPTS)
def test_inside_a_script_it_is_the_same(form, text, kind, code):
    error = server_error(ReplyError(form.format(text)))
    assert (type(error), error.code) == (kind, code)


@pytest.mark.parametrize(
    "text", ["ERR something new", "FANCY something new", "ERR syntax error", "ERR", ""]
)
def test_what_nobody_knows_is_a_plain_server_error(text):
    error = server_error(ReplyError(text))
    assert type(error) is ServerError
    assert text in str(error)


def test_a_word_inside_another_is_no_code():
    error = server_error(ReplyError("ERR the BUSYBOX said LOADINGS and TASK"))
    assert type(error) is ServerError


def test_commands_are_packed_as_bulk_strings():
    assert pack((b"SET", b"k", 7)) == b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n7\r\n"


def test_a_script_is_called_by_digest_or_with_its_source():
    by_digest = pack_call(ACQUIRE, [b"k1", b"k2"], [b"a", 5])
    with_source = pack_source(ACQUIRE, [b"k1", b"k2"], [b"a", 5])
    assert ACQUIRE.digest in by_digest
    assert ACQUIRE.source in with_source
    tail = b"$1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n$1\r\na\r\n$1\r\n5\r\n"
    assert by_digest.endswith(tail)
    assert with_source.endswith(tail)


def parsed(packed):
    parser = reader()
    parser.feed(packed)
    return parser.gets()


def test_a_handle_asks_and_releases_in_the_same_words_each_time():
    """Later requests are joined from what an earlier one left, with another id."""
    keys, options = LockKeys("p:", "a"), LeaseOptions(ttl=30.0, renew=True)
    terms = Terms(keys=keys, options=options, client_channel=b"h", ttl=30.0)
    for own_id in (b"w1", b"w2", b"w2'", b"w1"):
        one = Attempt(terms, own_id, b'{"unit":"w1"}')
        for channel in (b"h.1", b"h.22", b"", b"h.1"):
            place = b"%b %b %b " % (own_id, own_id, channel) if channel else b""
            told = [own_id, place, b"30000", b"%d" % (30000 + RECORD_MS), terms.words + one.info]
            asked = [b"EVALSHA", ACQUIRE.digest, b"5", *keys.all[:5], *told]
            assert parsed(terms.acquire(one, channel)) == asked
        for turn in (0, 7, 0):
            one.turn = turn
            last = [b"", b"7"] if turn else []
            freed = [b"EVALSHA", RELEASE.digest, b"6", *keys.all, own_id, b"h", *last]
            assert parsed(terms.packed_release(one)) == freed


def test_replies_are_told_from_pushes_and_errors():
    parser = reader()
    assert parser.gets() is INCOMPLETE
    parser.feed(
        b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n:7\r\n-ERR no\r\n$-1\r\n*0\r\n$5\r\nhel"
    )
    push = parser.gets()
    assert (type(push), list(push)) == (Push, [b"message", b"c", b"hi"])
    assert parser.gets() == 7
    assert isinstance(parser.gets(), ReplyError)
    assert parser.gets() is None
    assert parser.gets() == []
    assert parser.gets() is INCOMPLETE
    parser.feed(b"lo\r\n")
    assert parser.gets() == b"hello"
