"""The flows where replicas must have a grant or a renewal before it counts."""

from __future__ import annotations

from typing import Final

from fencelock._core.acknowledge import acknowledged, ask_acknowledged, confirm_seconds
from fencelock._core.apart import renew_due_confirmed
from fencelock._core.multi_renew import renew_all_confirmed
from fencelock._core.port import Flows
from fencelock._core.prolong import prolong_confirmed
from fencelock._core.renew import ended_unconfirmed
from fencelock._topology.flows.cluster import CLUSTER
from fencelock._topology.flows.single import SINGLE


def confirmed(flows: Flows) -> Flows:
    """Return those of ``CONFIRMED`` and ``CONFIRMED_CLUSTER`` that fit where these fit."""
    return CONFIRMED_CLUSTER if flows is CLUSTER else CONFIRMED


def _confirmed(flows: Flows) -> Flows:
    return flows._replace(
        prolong=prolong_confirmed,
        ended=ended_unconfirmed,
        confirm=acknowledged,
        ask_confirmed=ask_acknowledged,
        confirm_seconds=confirm_seconds,
    )


CONFIRMED: Final = _confirmed(SINGLE)
CONFIRMED_CLUSTER: Final = _confirmed(CLUSTER)._replace(
    renew_due=renew_due_confirmed, renew_all=renew_all_confirmed
)
