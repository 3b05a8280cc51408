"""The floors for threads: what the fastest correct form of the same commands costs.

Each worker has a blocking socket of its own with Nagle off, and every command is packed before the
clock starts. Replies are compared as bytes: they are short and known.
"""

from __future__ import annotations

import secrets

from contestants import TTL_SECONDS, Contestant, Pair
from wire import Address, Line, dial, pack

# Compare and delete: only the holder gives the lock back.
RELEASE = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0"


class Wrong(Exception):
    """The server answered something else than an undisturbed lock does."""


def lock_commands(address: Address, name: str) -> tuple[bytes, bytes]:
    """Return the two packed commands of a plain lock: SET NX PX, and the script by its hash."""
    with Line(address) as line:
        script = line.command("SCRIPT", "LOAD", RELEASE)
    token = secrets.token_hex(8)
    take = pack("SET", name, token, "NX", "PX", TTL_SECONDS * 1000)
    return take, pack("EVALSHA", script, 1, name, token)


class Threads(Contestant):
    """SET NX PX and compare-and-delete: two commands, two round trips. It cannot wait."""

    def pair(self, name: str) -> Pair:
        take, give = lock_commands(self.address, name)
        return asked(self.address, take, give, b"+OK\r\n")


def asked(address: Address, take: bytes, give: bytes, granted: bytes) -> Pair:
    """Return the floor's own loop around two packed commands; ``granted`` begins a grant."""
    line = dial(address)
    send, receive = line.sendall, line.recv

    def acquire() -> None:
        send(take)
        if not receive(64).startswith(granted):
            raise Wrong("the floor found its lock taken")

    def release() -> None:
        send(give)
        if receive(64) != b":1\r\n":
            raise Wrong("the floor did not hold its lock")

    return Pair(acquire, release)


def token_commands(name: str) -> tuple[bytes, bytes, bytes]:
    """Return BLPOP and LPUSH of the token, and the reply that brings it."""
    return pack("BLPOP", name, 0), pack("LPUSH", name, "1"), pack(name, "1")


class TokenThreads(Contestant):
    """One token in a list: the fastest handoff that a server can do. It protects nothing."""

    def pair(self, name: str) -> Pair:
        pop, push, popped = token_commands(name)
        line = dial(self.address)
        send, receive = line.sendall, line.recv

        def acquire() -> None:
            send(pop)
            reply = receive(256)
            while len(reply) < len(popped):
                reply += receive(256)
            if reply != popped:
                raise Wrong("that was not the token")

        def release() -> None:
            send(push)
            if receive(64) != b":1\r\n":
                raise Wrong("the list had a token already")

        return Pair(acquire, release)
