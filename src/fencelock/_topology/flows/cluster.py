"""The flows of a Cluster, whose keys lie in many slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fencelock._core.keys import LockKeys
from fencelock._core.lock.by_slot import (
    heartbeat_by_slot,
    line_up_by_slot,
    one_slot,
    renew_due_by_slot,
    side_by_side,
)
from fencelock._core.objects.multi_renew import renew_all_by_slot
from fencelock._core.port import Flows, SlottedPort
from fencelock._topology.flows.single import SINGLE


async def _survey(port: SlottedPort, found: Sequence[LockKeys], waiters: int) -> list[list[Any]]:
    """Show locks; few programs do."""
    from fencelock._core.lock.show import survey_by_slot  # noqa: PLC0415 - as said

    return await survey_by_slot(port, found, waiters)


CLUSTER: Final[Flows] = SINGLE._replace(
    line_up=line_up_by_slot,
    heartbeat=heartbeat_by_slot,
    one_script=one_slot,
    survey=_survey,
    renew_due=renew_due_by_slot,
    renew_all=renew_all_by_slot,
    side_by_side=side_by_side,
)
