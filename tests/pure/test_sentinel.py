"""_topology/sentinel.py: whom to believe, what an answer's age means, and the URL."""

import re
from types import SimpleNamespace

import pytest

from fencelock import ServerDenied, ServerUnreachable, ServerUnsuitable
from fencelock._core.types import NoReply
from fencelock._io.sources.kinds import Cloned, Direct
from fencelock._io.sources.resolve import resolve
from fencelock._io.sources.sentinel import from_url, reaching
from fencelock._io.sources.url import Address
from fencelock._io.wire import ReplyError, server_error
from fencelock._topology.sentinel import (
    FRESH_SECONDS,
    SHARED_SECONDS,
    MasterState,
    SentinelReply,
    SentinelService,
    check_role,
    demoted,
    parse_reply,
    unreachable,
)
from fencelock.cli.doctor import beside as doctor

OLD, NEW = SentinelReply(1, "10.0.0.1", 6379), SentinelReply(2, "10.0.0.2", 6379)


def known(*words, began=0.0):
    """Return what is known after one round of three Sentinels."""
    found = MasterState(from_url("redis+sentinel://a,b,c/s", asynchronous=False))
    found.learn(words, began)
    return found


# --- what is said ---------------------------------------------------------------------------------

FACTS = {b"config-epoch": b"7", b"flags": b"master"}
WHERE = [b"10.0.0.1", b"6380"]


def test_both_forms_of_an_answer_are_parse_reply():
    word = SentinelReply(7, "10.0.0.1", 6380)
    assert parse_reply(FACTS, WHERE) == word
    assert parse_reply([part for pair in FACTS.items() for part in pair], WHERE) == word


@pytest.mark.parametrize("flag", [b"s_down", b"o_down", b"failover_in_progress"])
def test_a_sentinel_that_sees_something_wrong_says_so(flag):
    assert parse_reply(FACTS | {b"flags": b"master," + flag}, WHERE).suspected


def test_what_is_wrong_with_an_old_master_is_no_doubt_about_the_new_one():
    listed = FACTS | {b"flags": b"master,o_down", b"ip": b"10.0.0.9", b"port": b"6380"}
    assert not parse_reply(listed, WHERE).suspected
    assert parse_reply(listed | {b"ip": WHERE[0]}, WHERE).suspected


@pytest.mark.parametrize(("master", "where"), [({}, WHERE), (FACTS, None), (FACTS, [b"h", b"x"])])
def test_another_answer_is_no_sentinels(master, where):
    with pytest.raises(ServerUnsuitable, match="Sentinel"):
        parse_reply(master, where)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ([None, None, None], ServerUnreachable),
        ([None, ServerUnreachable("x"), None], ServerUnreachable),
        ([None, ServerDenied("x", code="WRONGPASS"), None], ServerDenied),
        ([server_error(ReplyError("ERR No such master with that name"))] * 3, ServerUnsuitable),
    ],
)
def test_when_nobody_ever_said_where_the_master_is_the_reason_is_told(words, kind):
    with pytest.raises(kind, match="Sentinel"):
        known().master(words)


@pytest.mark.parametrize("reply", [None, ServerDenied("x", code="NOPERM")])
def test_the_last_known_master_is_trusted_while_no_sentinel_names_one(reply):
    found = known(OLD)
    for outcomes, trusted, recent in (
        ([OLD, None, None], False, SHARED_SECONDS),
        ([reply] * 3, True, FRESH_SECONDS),
    ):
        found.end_round(100.0, outcomes)
        assert found.trusts(101.0) is trusted
        assert found.locating(102.0, 105.0)[0] == 102.0 - recent


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("READONLY You can't write against a read only replica.", True),
        ("ERR Error running script: -READONLY You can't write against a read only replica.", True),
        ("MASTERDOWN Link with MASTER is down", True),
        ("NOREPLICAS Not enough good replicas to write.", False),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", False),
    ],
)
def test_a_replica_means_not_now_and_other_refusals_stay(text, passes):
    source = from_url("redis+sentinel://a/s", asynchronous=False)
    broken = demoted(source, server_error(ReplyError(text)))
    assert isinstance(broken, NoReply) is passes
    if broken is not None:
        assert not broken.sent


def test_a_master_that_cannot_be_reached_may_have_a_successor():
    source = from_url("redis+sentinel://a/s", asynchronous=False)
    assert isinstance(unreachable(source, ServerUnreachable("x", code="REFUSED")), NoReply)
    closed = ServerUnreachable("x", code="CLOSED")
    assert unreachable(source, closed) is closed


def test_only_a_master_is_check_role():
    source = from_url("redis+sentinel://a/s", asynchronous=False)
    check_role(source, {b"role": b"master"})
    with pytest.raises(NoReply, match="replica"):
        check_role(source, {b"role": b"replica"})


# --- the URL --------------------------------------------------------------------------------------


def addresses(source):
    return [each.locate(0.0) for each in source.sentinels], source.at(OLD).locate(0.0)


def test_a_url_names_sentinels_service_and_master():
    source = resolve(
        "redis+sentinel://app:p%40ss@h1,h2:7000,[::1]:7001/my%20locks/3"
        "?sentinel_username=u&sentinel_password=s%2F",
        asynchronous=False,
    )
    assert isinstance(source, SentinelService)
    sentinels, master = addresses(source)
    assert sentinels == [
        Address("h1", 26379, username="u", password="s/"),
        Address("h2", 7000, username="u", password="s/"),
        Address("::1", 7001, username="u", password="s/"),
    ]
    assert source.name == "my locks"
    assert master == Address("10.0.0.1", 6379, username="app", password="p@ss", db=3)
    assert source.label == "redis+sentinel://h1:26379,h2:7000,[::1]:7001/my%20locks/3"


@pytest.mark.parametrize("url", ["valkey+sentinel://h/s", "redis+sentinel://h/s/0?db=2"])
def test_little_is_enough(url):
    source = resolve(url, asynchronous=True)
    sentinels, master = addresses(source)
    assert sentinels == [Address("h", 26379)]
    assert master == Address("10.0.0.1", 6379, db=2 if "db" in url else 0)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_tls_reaches_sentinels_and_master_alike(asynchronous):
    url = "rediss+sentinel://u:pw@h1,h2:7000/s/2?ssl_cert_reqs=none&sentinel_password=sp"
    source = resolve(url, asynchronous=asynchronous)
    first, second = source.sentinels
    master = source.at(OLD)
    assert isinstance(master, Cloned)
    assert isinstance(first, Cloned)
    assert (second.settings["host"], second.settings["port"]) == ("h2", 7000)
    assert (first.settings["password"], first.settings["ssl_cert_reqs"]) == ("sp", "none")
    assert (master.settings["host"], master.settings["port"]) == ("10.0.0.1", 6379)
    assert (master.settings["password"], master.settings["db"]) == ("pw", 2)
    assert "pw" not in source.label


@pytest.mark.parametrize("asynchronous", [False, True])
def test_tls_knows_users_without_passwords(asynchronous):
    url = "rediss+sentinel://u@h1/s?sentinel_username=su"
    source = resolve(url, asynchronous=asynchronous)
    assert source.sentinels[0].settings["username"] == "su"
    assert source.at(OLD).settings["username"] == "u"


@pytest.mark.parametrize(
    "url",
    [
        *("redis+sentinel://h", "redis+sentinel://h/", "redis+sentinel:///s"),
        *("redis+sentinel://h:x/s", "redis+sentinel://h,/s", "redis+sentinel://h:0/s"),
        *("redis+sentinel://h:70000/s", "redis+sentinel://h/s/x", "redis+sentinel://h/s?passwrd=x"),
    ],
)
def test_a_bad_url_is_refused_and_shows_no_password(url):
    url = url.replace("://", "://u:s3cret@")
    with pytest.raises(ValueError, match="source URL") as raised:
        resolve(url, asynchronous=False)
    assert "s3cret" not in str(raised.value)


def test_an_address_may_be_forced():
    at = reaching(Direct(lambda _: Address(db=1), "x"), "x", "10.9.9.9")
    assert at(OLD).locate(0.0) == Address("10.9.9.9", 6379, db=1)


# --- what the doctor says of them -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "level", "words"),
    [
        ([OLD, OLD, OLD], "OK", "3 of 3 answer: 10.0.0.1:6379, epoch 1"),
        ([OLD, ServerUnreachable("no route"), OLD], "WARN", "2 of 3 answer: .*\nno route"),
        ([OLD, NEW, NEW], "WARN", "epoch 1; 10.0.0.2:6379, epoch 2"),
        ([OLD, OLD], "WARN", "2 of 2 answer"),
    ],
)
def test_the_doctor_tells_how_many_answer_and_whether_they_agree(monkeypatch, said, level, words):
    async def survey(*_):
        return said

    monkeypatch.setattr(doctor, "survey", survey)
    service = from_url("redis+sentinel://a,b,c/s", asynchronous=False)
    session = SimpleNamespace(operator=SimpleNamespace(sentinels=service))
    (finding,) = doctor.agreement(SimpleNamespace(session=session))
    assert finding.level == level
    assert re.search(words, finding.found)
    assert bool(finding.change) is (level != "OK")
