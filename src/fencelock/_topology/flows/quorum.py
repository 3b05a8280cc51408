"""The flows of a quorum of independent servers. Each node's own port has those of one server.

What a quorum refuses (``quorum_limits.py``) is left as it is on one server, and never called.
"""

from __future__ import annotations

from typing import Final

from fencelock._core.port import Flows
from fencelock._core.quorum.acquire import take
from fencelock._core.quorum.inspect import holder_of, is_idle, local_rows, on_each, replies
from fencelock._core.quorum.maintain import (
    clean_up,
    give_back,
    hand_back,
    maintain,
    release_in_background,
    renew,
)
from fencelock._topology.flows.single import SINGLE

QUORUM: Final[Flows] = SINGLE._replace(
    take=take,
    maintain=maintain,
    renew=renew,
    give_back=give_back,
    release_in_background=release_in_background,
    hand_back=hand_back,
    clean_up=clean_up,
    replies=replies,
    on_each=on_each,
    holder_of=holder_of,
    is_idle=is_idle,
    local_rows=local_rows,
)
