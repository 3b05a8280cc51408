"""By which names the dashboard may be reached, and what each token allows."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from typing import Final, NamedTuple

# Too long to be guessed over the network; ``made_token`` makes longer ones.
TOKEN_CHARS_MIN: Final = 16
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Access(NamedTuple):
    """What one dashboard allows.

    ``hosts`` are the names and addresses, without port, by which browsers may reach it. With
    ``read_token``, every reading of data needs that token or the other one. ``token`` is what
    revoking needs; None: nothing can be revoked.
    """

    hosts: frozenset[str] = LOOPBACK
    read_token: str | None = None
    token: str | None = None

    @property
    def may_revoke(self) -> bool:
        """Return True if this dashboard can revoke locks at all."""
        return self.token is not None

    def opens_reading(self, given: str) -> bool:
        """Return True if a token, or an empty text for none, is enough to read."""
        tokens = [each for each in (self.read_token, self.token) if each is not None]
        return self.read_token is None or _is_one_of(given, tokens)

    def knows(self, given: str) -> bool:
        """Return True if a text is one of the tokens, whatever that opens."""
        return _is_one_of(given, [each for each in (self.read_token, self.token) if each])

    def opens_revoking(self, given: str) -> bool:
        """Return True if a token is enough to revoke locks."""
        return self.token is not None and _is_one_of(given, [self.token])


def _is_one_of(given: str, tokens: list[str]) -> bool:
    """Compare with each, in a time that does not depend on where they differ."""
    found = [hmac.compare_digest(given.encode(), token.encode()) for token in tokens]
    return any(found)


def made_token() -> str:
    """Return a fresh token."""
    return secrets.token_urlsafe(24)


def checked_token(name: str, token: str) -> str:
    """Return a token without the white space around it.

    Raises:
        ValueError: it is short enough to be guessed, or cannot stand in a header.
    """
    token = token.strip()
    if len(token) < TOKEN_CHARS_MIN:
        raise ValueError(f"{name} must have at least {TOKEN_CHARS_MIN} characters")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError(f"{name} must be printable ASCII without spaces")
    return token


def checked_host(name: str) -> str:
    """Return a host name or address as a Host header has it, without port and brackets.

    Raises:
        ValueError: it is neither a name nor an address.
    """
    bare = name.strip("[]").lower()
    if not _is_address(bare) and not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", bare):
        raise ValueError(f"{name!r} must be a host name or an address, without port")
    return bare


def is_loopback(host: str) -> bool:
    """Return True if an address to listen on is reached from this machine only."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_wildcard(host: str) -> bool:
    """Return True if it means every address of this machine."""
    return host == "" or (_is_address(host) and ipaddress.ip_address(host).is_unspecified)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
