"""The flows of a quorum of independent servers. Each node's own port has those of one server.

What a quorum refuses (``quorums.py``) is left as it is on one server, and never called.
"""

from __future__ import annotations

from typing import Final

from fencelock._core.port import Flows
from fencelock._core.quorum import take
from fencelock._core.quorum_keep import attend, clean_up, give_back, post_release, renew
from fencelock._core.quorum_look import holder_of, on_each, replies
from fencelock._topology.flows.single import SINGLE

QUORUM: Final[Flows] = SINGLE._replace(
    take=take,
    attend=attend,
    renew=renew,
    give_back=give_back,
    post_release=post_release,
    clean_up=clean_up,
    replies=replies,
    on_each=on_each,
    holder_of=holder_of,
)
