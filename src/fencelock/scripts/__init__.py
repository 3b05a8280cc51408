"""The Lua scripts that decide everything on the server, one file per operation.

Each file opens with its KEYS, ARGV and replies. A line ``-- include: NAME`` puts the fragment
``NAME.lua`` in its place, so that the rule for who is granted next exists once.
"""

from __future__ import annotations

import re
from hashlib import sha1
from importlib.resources import files

_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)


class Script:
    """One operation on the server: its name, its source and the digest that EVALSHA wants."""

    __slots__ = ("digest", "name", "source")

    def __init__(self, name: str) -> None:
        self.name = name
        self.source = _INCLUDE.sub(lambda m: _read(m[1]), _read(name)).encode()
        self.digest = sha1(self.source, usedforsecurity=False).hexdigest().encode()

    def __repr__(self) -> str:
        return f"<Script {self.name}>"


def _read(name: str) -> str:
    return (files(__name__) / f"{name}.lua").read_text(encoding="utf-8")


ABANDON = Script("abandon")
ACQUIRE = Script("acquire")
ALIVE = Script("alive")
BREAK = Script("break")
GIVE_BACK = Script("give_back")
KEEP = Script("keep")
RELEASE = Script("release")
RENEW = Script("renew")
SHOW = Script("show")

ALL = (ABANDON, ACQUIRE, ALIVE, BREAK, GIVE_BACK, KEEP, RELEASE, RENEW, SHOW)
