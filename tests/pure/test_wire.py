"""_io/wire.py: what each error reply means, on every server that says it; and both parsers."""

import random
import subprocess
import sys

import pytest

from fencelock import ServerDenied, ServerError, ServerReadOnly, ServerUnreachable, ServerUnsuitable
from fencelock._core.keys import LockKeys
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.terms import Terms
from fencelock._io import resp, wire
from fencelock._io.wire import (
    INCOMPLETE,
    ReplyError,
    pack,
    server_error,
)
from fencelock.options import LeaseOptions
from fencelock.scripts import ACQUIRE, RELEASE, packed, with_source
from fencelock.scripts.constants import RECORD_MS

try:
    import hiredis
except ImportError:  # PyPy
    PARSERS = [resp]
else:
    PARSERS = [resp, hiredis]
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
    by_digest = packed(ACQUIRE, [b"k1", b"k2"], [b"a", 5])
    sourced = with_source(by_digest)
    assert parsed(by_digest) == [b"EVALSHA", ACQUIRE.digest, b"2", b"k1", b"k2", b"a", b"5"]
    assert parsed(sourced) == [b"EVAL", ACQUIRE.source, b"2", b"k1", b"k2", b"a", b"5"]
    tail = b"$1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n$1\r\na\r\n$1\r\n5\r\n"
    assert by_digest.endswith(tail)
    assert sourced.endswith(tail)


@pytest.mark.parametrize("words", [(b"PING",), (b"SET", b"k", b"EVALSHA")])
def test_a_command_has_no_source(words):
    assert with_source(pack(words)) == pack(words)


def parsed(packed):
    parser = wire.reader()
    parser.feed(packed)
    return parser.gets()


@pytest.mark.parametrize("owner", [b"", b"owner:x"])
def test_a_handle_asks_and_releases_in_the_same_words_each_time(owner):
    """Later requests are joined from what an earlier one left, with another id."""
    keys, options = LockKeys("p:", "a"), LeaseOptions(ttl=30.0, renew=True)
    given = {"keys": keys, "options": options, "ttl": 30.0, "owned": bool(owner)}
    terms = Terms(client_channel=b"h", **given)
    for own_id in (b"w1", b"w2", b"w2'", b"w1"):
        one = Attempt(terms, own_id, b'{"unit":"w1"}', owner or None)
        holder, last = owner or own_id, [own_id] if owner else []
        for channel in (b"h.1", b"h.22", b"", b"h.1"):
            place = b"%b %b %b " % (own_id, holder, channel) if channel else b""
            told = [b"30000", b"%d" % (30000 + RECORD_MS), terms.words + one.info, *last]
            asked = [b"EVALSHA", ACQUIRE.digest, b"5", *keys.all[:5], holder, place, *told]
            assert parsed(terms.acquire(one, channel)) == asked
        for turn in (0, 7, 0) if not owner else (0, 0):
            one.turn = turn
            last = [own_id, b""] if owner else [b"", b"7"] if turn else []
            freed = [b"EVALSHA", RELEASE.digest, b"6", *keys.all, holder, b"h", *last]
            assert parsed(terms.packed_release(one)) == freed


@pytest.fixture(params=PARSERS, ids=lambda parser: parser.__name__)
def parser(request, monkeypatch):
    """Lend a new reader of each of the two parsers."""
    monkeypatch.setattr(wire, "_parser", request.param)
    return wire.reader()


def reader(module):
    """Return a reader whose errors can be compared."""
    return module.Reader(protocolError=ConnectionError, replyError=repr, notEnoughData=INCOMPLETE)


def all_of(parser):
    """Return the messages that have come whole."""
    return list(iter(parser.gets, INCOMPLETE))


def test_replies_are_told_from_pushes_and_errors(parser):
    assert parser.gets() is INCOMPLETE
    parser.feed(
        b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n:7\r\n-ERR no\r\n$-1\r\n*0\r\n$5\r\nhel"
    )
    push = parser.gets()
    assert isinstance(push, wire._parser.PushNotification)
    assert list(push) == [b"message", b"c", b"hi"]
    assert parser.gets() == 7
    assert isinstance(parser.gets(), ReplyError)
    assert parser.gets() is None
    assert parser.gets() == []
    assert parser.gets() is INCOMPLETE
    parser.feed(b"lo\r\n")
    assert parser.gets() == b"hello"


EVERY_KIND = [
    (b"_\r\n", None),
    (b"#t\r\n", True),
    (b",-1.5\r\n", -1.5),
    (b",inf\r\n", float("inf")),
    (b"(-12345678901234567890\r\n", b"-12345678901234567890"),
    (b"=7\r\ntxt:\r\n!\r\n", b"\r\n!"),
    (b"$4\r\n\r\n\xff\0\r\n", b"\r\n\xff\0"),
    (b"$0\r\n\r\n", b""),
    (b"+\xff\r\n", b"\xff"),
    (b"~2\r\n:1\r\n:2\r\n", [1, 2]),
    (b"%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n_\r\n>1\r\n*0\r\n", {b"a": 1, b"b": [None, [[]]]}),
    (b"*-1\r\n", None),
]


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
def test_messages_come_in_any_pieces(parser, piece):
    data = b"".join(each for each, _ in EVERY_KIND)
    found = []
    for at in range(0, len(data), piece):
        parser.feed(bytearray(b"?" + data), 1 + at, min(piece, len(data) - at))
        found += all_of(parser)
    assert found == [meant for _, meant in EVERY_KIND]


@pytest.mark.skipif(len(PARSERS) < 2, reason="hiredis is not installed")
@pytest.mark.parametrize("seed", range(20))
def test_both_parsers_read_the_same(seed):
    rng = random.Random(seed)
    data = b"".join(made_up(rng) for _ in range(20))
    ours, theirs = map(reader, PARSERS)
    while data:
        piece, data = data[: (size := rng.choice((1, 5, 50)))], data[size:]
        ours.feed(piece)
        theirs.feed(piece)
        assert all_of(ours) == all_of(theirs)


def made_up(rng, depth=0):
    """Return a message of any kind."""
    count = rng.randrange(4)
    kind = rng.choice("+-:$*_#(%~>" if depth < 4 else "+:$")
    inner = [made_up(rng, depth + 1) for _ in range(count)] if kind in "*%~>" else []
    if kind == "%":
        inner = [b"+%d\r\n%b" % pair for pair in enumerate(inner)]
    text = rng.randbytes(count * 9)
    return {
        "$": b"$%d\r\n%b\r\n" % (len(text), text),
        "_": b"_\r\n",
        "#": b"#f\r\n",
    }.get(kind, b"%b%d\r\n%b" % (kind.encode(), count, b"".join(inner)))


FOREIGN = [
    *(b"HTTP/1.1 400 Bad Request\r\n", b"?", b":1x\r\n", b":\r\n", b"$x\r\n", b"$-2\r\n"),
    *(b"*-2\r\n", b"#x\r\n", b",x\r\n", b"(1.5\r\n", b"=3\r\nabc\r\n", b"_x\r\n", b"+a\rb\r\n"),
]


@pytest.mark.parametrize("data", FOREIGN)
def test_what_is_no_resp_is_an_error(parser, data):
    parser.feed(data)
    with pytest.raises(ConnectionError):
        parser.gets()


@pytest.mark.parametrize(
    "data",
    [b"+" + b"a" * 70000, b"$99999999999\r\n", b"*99999999999\r\n", b"*1\r\n" * 100],
    ids=["line", "string", "items", "depth"],
)
def test_our_parser_reads_nothing_without_bounds(data):
    """The other one waits for such a string, and for the end of such a line."""
    ours = reader(resp)
    ours.feed(data)
    with pytest.raises(ConnectionError):
        ours.gets()


def test_our_parser_leaves_attributes_out():
    """The other one takes them for answers."""
    ours = reader(resp)
    ours.feed(b"|1\r\n+ttl\r\n:9\r\n*2\r\n|0\r\n:1\r\n|1\r\n+a\r\n*1\r\n:3\r\n:2\r\n")
    assert all_of(ours) == [[1, 2]]


def test_our_parser_keeps_what_is_to_come_only():
    ours = reader(resp)
    for _ in range(3):
        ours.feed(b"$50000\r\n" + b"a" * 50000 + b"\r\n$50000\r\n" + b"a" * 49999)
        assert len(ours.gets()) == 50000
        ours.feed(b"a\r\n")
        assert len(ours.gets()) == 50000
    assert len(ours._buffer) == 0


@pytest.mark.parametrize("module", PARSERS, ids=lambda parser: parser.__name__)
def test_both_pack_commands_as_bulk_strings(module):
    assert (
        module.pack_command((b"SET", b"", b"\r\n"))
        == b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("world", "why"),
    [
        (
            "sys._is_gil_enabled = lambda: True; sys.modules['hiredis'] = None",
            "hiredis is not installed",
        ),
        ("sys._is_gil_enabled = lambda: False", "hiredis would turn the GIL on"),
    ],
)
def test_a_lock_is_taken_without_hiredis_and_it_is_not_imported(world, why):
    story = f"""
import sys
{world}
import fencelock
from tests.servers import Server
from fencelock._io import wire
assert wire.IN_PYTHON == {why!r}
with Server() as server, fencelock.Client(server.tcp_url) as client, client.lock("a", ttl=5):
    assert client.lock("a").locked()
assert not sys.modules.get("hiredis"), "it is imported"
"""
    subprocess.run([sys.executable, "-c", story], check=True)
