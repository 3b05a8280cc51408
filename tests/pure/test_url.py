"""_io/sources/url.py: URLs and settings become one address; its password stays inside."""

import itertools
import re
from pathlib import Path

import pytest

from fencelock import Client
from fencelock._io.sources.url import Address, from_settings, general, parse, simple

URLS = {
    "redis://": Address(),
    "redis://h": Address("h"),
    "redis://h:7000": Address("h", 7000),
    "valkey://h/3": Address("h", db=3),
    "redis://h?db=4": Address("h", db=4),
    "redis://:pw@h": Address("h", password="pw"),
    "redis://u:p%40%3A%2F@h:1/2": Address("h", 1, "", "u", "p@:/", 2),
    "redis://h?username=u&password=p": Address("h", username="u", password="p"),
    "redis://[::1]:7000/1": Address("::1", 7000, db=1),
    "redis://h/2?health_check_interval=5&decode_responses=True&protocol=3": Address("h", db=2),
    "unix:///run/s": Address(path="/run/s"),
    "unix:///run/a%20b?db=2": Address(path="/run/a b", db=2),
    "unix://u:p@/run/s": Address(path="/run/s", username="u", password="p"),
    "unix:///run/s?username=u&password=p": Address(path="/run/s", username="u", password="p"),
}


@pytest.mark.parametrize(("url", "address"), URLS.items(), ids=URLS)
def test_a_url_is_an_address(url, address):
    assert parse(url) == address


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://u:secret@h:x", "bad port: 'redis://h:x' (in a password / is"),
        ("redis://u:se/cret@h", "bad port: 'redis://h' (in a password / is"),
        ("redis://u:secr[et@h", "odd bracket: 'redis://h' (in a password / is"),
        ("rediss://u:se/cret@h", "bad port: 'rediss://h' (in a password / is"),
        ("redis+cluster://u:se?cret@h", "bad node: 'redis+cluster://...' (in a password / is"),
        ("redis+sentinel://u:se?cret@h/s", "names no service: redis+sentinel://..."),
        ("redis://u:1/secret@h:6379/0", "bad database number: 'h:6379/0' (in a"),
        ("redis://h?database=3", "unknown option 'database': it may have db, username, password"),
        (
            "redis://h?ssl=true&db=1",
            "unknown option 'ssl': it may have db, username, password, and",
        ),
        ("unix:///run/s?pasword=secret", "'pasword': it may have db, username, password; did you"),
        ("redis://h?retryy=1", "unknown option 'retryy'"),
        ("redis://h?socket_timeout=0.5", "server_timeout="),
        ("rediss://h?ssl_ca_cert=x", "did you mean ssl_ca_certs=?"),
        ("redis+cluster://h?lib_foo=x", "unknown option 'lib_foo'"),
        ("rediss+cluster://h?socket_timout=1", "unknown option 'socket_timout'"),
        ("rediss+sentinel://h/s?protocolx=3", "unknown option 'protocolx'"),
        ("redis://u:se?cret@h", "bad port: 'redis://...'"),
        ("redis://h:x?password=se@cret", "bad port: 'redis://...'"),
        ("u:secret@h:6379", "must look like redis://host:6379/0, not 'h:6379'"),
        ("unix://u:secret@", "names no socket: unix:// "),
        ("unix://run/redis.sock", "names no socket: unix://run/redis.sock (unix:///path"),
    ],
)
def test_a_mistake_is_told_without_the_password(url, said):
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        Client(url)
    assert not re.search(r"secret|cret|:se\b", str(caught.value))


@pytest.mark.parametrize(
    "url", ["redis://h?{}", "rediss://h?{}&ssl_cert_reqs=none", "redis+sentinel://h/s?{}"]
)
def test_options_of_redis_py_that_do_nothing_are_named_in_one_line(caplog, url):
    caplog.set_level("INFO")
    Client(url.format("retry_on_timeout=True&client_name=web"))
    (line,) = caplog.messages
    assert line == "options of the URL that do nothing here: client_name, retry_on_timeout"


def test_a_blank_around_a_url_is_no_part_of_it():
    assert repr(Client(" redis://h:7000/3\n")) == repr(Client("redis://h:7000/3"))


def test_an_empty_list_is_no_wish_for_the_default(monkeypatch):
    monkeypatch.setenv("FENCELOCK_URL", "redis://a redis://b redis://c")
    for source in ([], ()):
        with pytest.raises(ValueError, match="at least 3 sources"):
            Client(source)


@pytest.mark.parametrize(
    "url",
    [
        *("redis://h", "redis://10.0.0.7:7000/3", "valkey://a-b.c:0/", "redis://h:/"),
        *("redis://h:65535", "unix:///run/a_b-c.d/s", "unix:////s?db=12", "unix:///s:1?db=0"),
    ],
)
def test_the_quick_way_to_read_a_url_says_the_same(url):
    assert simple(url) == general(url)


def test_what_the_quick_way_reads_the_other_reads_alike():
    """Pieces put together in every way: mistakes are left to the general way."""
    pieces = ["", "h", "H", ":", "7", "99999", "/", "x", "@", "?", "?db=2", "?x=1", "[::1]", "%20"]
    for scheme in ("redis", "valkey", "unix"):
        for parts in itertools.product(pieces, repeat=4):
            url = f"{scheme}://{''.join(parts)}"
            quick = simple(url)
            assert quick is None or quick == general(url), url


@pytest.mark.parametrize("address", [*URLS.values()], ids=str)
def test_an_address_shows_itself_without_its_password(address):
    shown = str(address)
    assert "p@" not in shown
    assert "pw" not in shown
    assert parse(shown) == Address(
        address.host, address.port, address.path, address.username, None, address.db
    )


@pytest.mark.parametrize(
    ("address", "commands"),
    [
        (Address(), [(b"HELLO", b"3", b"SETNAME", b"fencelock")]),
        (
            Address(password="p", db=2),
            [
                (b"HELLO", b"3", b"AUTH", b"default", b"p", b"SETNAME", b"fencelock"),
                (b"SELECT", b"2"),
            ],
        ),
        (
            Address(username="u", password="é"),
            [(b"HELLO", b"3", b"AUTH", b"u", "é".encode(), b"SETNAME", b"fencelock")],
        ),
        (
            Address(username="u"),
            [(b"HELLO", b"3", b"AUTH", b"u", b"", b"SETNAME", b"fencelock")],
        ),
        (Address(password=""), [(b"HELLO", b"3", b"SETNAME", b"fencelock")]),  # as redis-py
    ],
)
def test_a_greeting_authenticates_and_selects(address, commands):
    assert address.handshake() == commands


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, Address()),
        ({"host": "h", "port": "7", "db": "2"}, Address("h", 7, db=2)),
        ({"path": "/s", "password": "p"}, Address(path="/s", password="p")),
        ({"path": b"/s"}, Address(path="/s")),
        ({"path": Path("/s")}, Address(path="/s")),
        ({"password": b"p"}, None),  # the client knows how it sends what is no text
        ({"password": 1234}, None),
        ({"username": b"u", "password": "p"}, None),
        ({"credential_provider": object()}, None),
        ({"redis_connect_func": print}, None),
        ({"host": None, "username": None, "db": None}, Address()),
    ],
)
def test_the_settings_of_a_client_are_an_address_when_that_is_all(settings, address):
    assert from_settings(settings) == address
