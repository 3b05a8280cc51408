"""The flows where replicas must have a grant or a renewal before it counts."""

from __future__ import annotations

from typing import Final

from fencelock._core.lock.acknowledge import (
    acknowledged,
    ask_acknowledged,
    confirm_seconds,
    renew_batch_confirmed,
)
from fencelock._core.lock.by_slot import renew_due_confirmed
from fencelock._core.lock.renew import ended_unconfirmed
from fencelock._core.objects.multi_renew import renew_all_confirmed
from fencelock._core.port import Flows
from fencelock._topology.flows.cluster import CLUSTER
from fencelock._topology.flows.single import SINGLE


def confirmed(flows: Flows) -> Flows:
    """Return those of ``CONFIRMED`` and ``CONFIRMED_CLUSTER`` that fit where these fit."""
    return CONFIRMED_CLUSTER if flows is CLUSTER else CONFIRMED


def _confirmed(flows: Flows) -> Flows:
    return flows._replace(
        renew_batch=renew_batch_confirmed,
        ended=ended_unconfirmed,
        confirm=acknowledged,
        ask_confirmed=ask_acknowledged,
        confirm_seconds=confirm_seconds,
        confirms=True,
    )


CONFIRMED: Final = _confirmed(SINGLE)
CONFIRMED_CLUSTER: Final = _confirmed(CLUSTER)._replace(
    renew_due=renew_due_confirmed, renew_all=renew_all_confirmed
)
