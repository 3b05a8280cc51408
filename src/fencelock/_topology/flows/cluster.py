"""The flows of a Cluster, whose keys lie in many slots."""

from __future__ import annotations

from typing import Final

from fencelock._core.apart import (
    line_up_apart,
    look_apart,
    one_slot,
    renew_due_apart,
    side_by_side,
)
from fencelock._core.multi_renew import renew_all_apart
from fencelock._core.port import Flows, SlottedPort
from fencelock._core.waiter import Waiter
from fencelock._topology.flows.single import SINGLE


def _never_seated(_port: SlottedPort, _waiter: Waiter) -> bool:
    """Return False: a waiter listens anew at the node of the lock."""
    return False


CLUSTER: Final[Flows] = SINGLE._replace(
    line_up=line_up_apart,
    seat_in_line=_never_seated,
    look=look_apart,
    one_script=one_slot,
    renew_due=renew_due_apart,
    renew_all=renew_all_apart,
    side_by_side=side_by_side,
)
