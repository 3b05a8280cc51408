"""The Lua scripts that decide everything on the server, one file per operation.

Each file opens with its KEYS, ARGV and replies. A line ``-- include: NAME`` puts the fragment
``NAME.lua`` in its place, so that the rule for who is granted next exists once.
"""

from __future__ import annotations

import os
import re
from hashlib import sha1

_HERE = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is slow to import, too
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
    # importlib.resources would do the same, and be a tenth of the time that the import takes.
    with open(os.path.join(_HERE, f"{name}.lua"), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - see above
        return file.read()


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
