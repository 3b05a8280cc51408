"""A server's address and our credentials: parsed once, without redis-py."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from fencelock._runtime.log import log
from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from urllib.parse import SplitResult

PLAIN_SCHEMES = ("redis", "valkey", "unix")
TLS_SCHEMES = ("rediss", "valkeys")
SENTINEL_SCHEMES = ("redis+sentinel", "valkey+sentinel", "rediss+sentinel", "valkeys+sentinel")
# Characters of a simple URL: nothing quoted, and no user, password or IPv6 address.
_SIMPLE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._/:")
_PORTS = 65536
OPTIONS = ("db", "username", "password")
# What redis-py's connections and pools have besides. A URL may be shared with them: what does
# nothing here is named in one line of the log.
_SOCKETS = frozenset(
    ("socket_keepalive", "socket_keepalive_options", "socket_read_size", "socket_type")
)
_THEIRS = _SOCKETS | {
    *("client_name", "decode_responses", "driver_info", "encoding", "encoding_errors"),
    *("health_check_interval", "legacy_responses", "lib_name", "lib_version", "max_connections"),
    *("protocol", "retry", "retry_on_error", "retry_on_timeout", "timeout"),
}
# A user who gives these expects that they bound a call.
_BOUNDS = ("socket_timeout", "socket_connect_timeout")
_TLS = frozenset(
    f"ssl_{each}"
    for each in (
        *("ca_certs", "ca_data", "ca_path", "cert_reqs", "certfile", "check_hostname", "ciphers"),
        *("exclude_verify_flags", "include_verify_flags", "keyfile", "min_version", "password"),
        *("ocsp_context", "ocsp_expected_cert", "validate_ocsp", "validate_ocsp_stapled"),
    )
)
# Needs no permission on any server: every user may send HELLO and AUTH.
GREETING = (b"HELLO", b"3", b"SETNAME", b"fencelock")


class Address(NamedTuple):
    """A plain TCP or Unix socket address with credentials and database number."""

    host: str = "localhost"
    port: int = 6379
    path: str = ""
    username: str | None = None
    password: str | None = None
    db: int = 0

    def handshake(self) -> list[tuple[bytes, ...]]:
        """Return the commands that make a fresh connection ours: HELLO 3, AUTH, SELECT.

        A user without a password logs in, too, as with redis-py: else ``default`` would act for it.
        """
        hello: tuple[bytes, ...] = (b"HELLO", b"3")
        if self.username or self.password:
            user, password = self.username or "default", self.password or ""
            hello += (b"AUTH", user.encode(), password.encode())
        commands = [(*hello, b"SETNAME", b"fencelock")]
        if self.db:
            commands.append((b"SELECT", str(self.db).encode()))
        return commands

    def __str__(self) -> str:
        """Return the address without its password."""
        user = f"{self.username}@" if self.username else ""
        if self.path:
            return f"unix://{user}{self.path}?db={self.db}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis://{user}{host}:{self.port}/{self.db}"


def parse(url: str) -> Address:
    """Parse a ``redis://``, ``valkey://`` or ``unix://`` URL; ValueError says what is wrong."""
    return simple(url) or general(url)


def simple(url: str) -> Address | None:
    """Parse the most usual URLs; None for all others, including those with mistakes.

    The result is the same as that of ``general``; it saves the command line some imports.
    """
    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    if not _SIMPLE.issuperset(rest):
        return None
    if scheme == "unix":
        word, _, db = (query or "db=0").partition("=")
        known = rest[:1] == "/" and word == "db" and db.isdecimal()
        return Address(path=rest, db=int(db)) if known else None
    where, _, db = rest.partition("/")
    host, _, port = where.partition(":")
    if query or not (host and f"{port}0{db}".isdecimal()):
        return None
    number = int(port or 0) or 6379
    return Address(host, number, db=int(db or 0)) if number < _PORTS else None


def general(url: str) -> Address:
    """Parse any URL; see ``parse``."""
    from urllib.parse import parse_qs, unquote  # noqa: PLC0415 - see ``simple``

    parts, port = divided(url)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    used_options(parse_qs(parts.query, keep_blank_values=True), OPTIONS)
    username = unquote(parts.username) if parts.username else query.get("username")
    password = unquote(parts.password) if parts.password else query.get("password")
    if parts.scheme == "unix":
        path = unquote(parts.path)
        if not path or parts.hostname:
            raise ValueError(
                f"source URL names no socket: {redacted(url)} (unix:///path/to/socket?db=0)"
            )
        return Address(
            path=path, username=username, password=password, db=db_number(query.get("db", "0"))
        )
    db = db_number(query.get("db") or parts.path.strip("/") or "0")
    return Address(parts.hostname or "localhost", port, "", username, password, db)


def used_options(given: Iterable[str], known: Sequence[str], *, tls: bool = False) -> list[str]:
    """Return those of a URL's options that do something; log once which of redis-py's do not.

    ValueError for any other: to ignore it could lead to another database, or leave out TLS.
    """
    works = {*known, *_SOCKETS, *_TLS} if tls else {*known}
    used = [each for each in given if each in works]
    idle = sorted({*given} - works)
    for each in idle:
        if each in _BOUNDS:
            raise ValueError(
                f"source URL has {each}=, which does nothing here: how long to retry a silent"
                " server is server_timeout= of the client"
            )
        if each not in _THEIRS:
            raise ValueError(
                f"source URL has an unknown option {each!r}: {_known(each, known, tls=tls)}"
            )
    if idle:
        log.info("options of the URL that do nothing here: %s", ", ".join(idle))
    return used


def _known(unknown: str, known: Sequence[str], *, tls: bool) -> str:
    """Return which options there are, and the one that may have been meant."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for this error

    alike = get_close_matches(unknown, [*known, *(_TLS if tls else ())], n=1)
    meant = f"; did you mean {alike[0]}=?" if alike else ""
    more = ", and TLS is rediss://" if unknown.startswith("ssl") and not tls else ""
    return f"it may have {', '.join(known) or 'none'}{' and ssl_…' * tls}{more}{meant}"


def divided(url: str) -> tuple[SplitResult, int]:
    """Return the parts of a URL, and its port; the errors of ``urllib`` may show a password."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - as above

    what = "an odd bracket"
    try:
        parts = urlsplit(url)
        what = "a bad port"
        port = parts.port or 6379
    except ValueError:
        raise unreadable(url, what) from None
    return parts, port


def unreadable(url: str, what: str) -> ValueError:
    """Return the error for a URL that cannot be read, maybe for what a password has in it."""
    return ValueError(f"source URL has {what}: {redacted(url)!r}{_quoting(url)}")


def login(text: str) -> tuple[str | None, str | None]:
    """Return the user and the password of a URL's ``user:password``, each if it is there."""
    from urllib.parse import unquote  # noqa: PLC0415 - see ``simple``

    user, _, password = text.partition(":")
    return unquote(user) or None, unquote(password) or None


def db_number(text: str) -> int:
    """Return the database number of a URL; ValueError when it is not a number."""
    if not text.isdecimal():
        shown = text.rpartition("@")[2]  # the text before it may be part of a password
        raise ValueError(f"source URL has a bad database number: {shown!r}{_quoting(text)}")
    return int(text)


def _quoting(url: str) -> str:
    """Return a hint about quoting for a URL with a password."""
    quoted = "/ is written %2F, ? %3F, # %23, [ %5B, ] %5D, and @ %40"
    return f" (in a password {quoted})" if "@" in url else ""


def redacted(url: str) -> str:
    """Return a URL without user, password and options."""
    scheme, separator, rest = ("", "", url) if "://" not in url else url.partition("://")
    where, _, more = rest.partition("?")
    if "@" in more:  # it may belong to an option or end a password
        return f"{scheme}{separator}..."
    return scheme + separator + where.rpartition("@")[2]


def from_settings(settings: Mapping[str, Any]) -> Address | None:
    """Return the address in a client's ``connection_kwargs``; None when more is in them."""
    more = ("credential_provider", "redis_connect_func", "valkey_connect_func")
    if any(settings.get(each) for each in more):
        return None
    username, password = settings.get("username"), settings.get("password")
    if not all(each is None or isinstance(each, str) for each in (username, password)):
        return None  # bytes or a number: the client knows how it sends them
    return Address(
        host=settings.get("host") or "localhost",
        port=int(settings.get("port") or 6379),
        path=os.fsdecode(settings.get("path") or ""),
        username=username,
        password=password,
        db=int(settings.get("db") or 0),
    )
