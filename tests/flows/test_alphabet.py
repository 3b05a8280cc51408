"""The explorer's alphabet is the API: every call is made in a world, under every fault."""

import pytest

import fencelock
from tests.flows.alphabet import CALLS, FAULTS, LEFT_OUT, met, seen
from tests.flows.worlds import clusters
from tests.test_public_surface import NAMES

SENT = [call for calls in CALLS.values() for call in calls]
SPECIAL = {"__enter__", "__exit__", "__call__"}

# Faults that a family of worlds does not have → why.
SPARED = {
    "event": {
        **dict.fromkeys(("expiry", "stuck"), "a state has no lease that could end"),
        "back": "no decision about a state compares instants of two calls",
    },
    "quorum": {
        "noise": "what a node's channel may carry is one server's matter: the lock's worlds",
        "cut": "a node that is away for longer is the harder fault: down",
    },
}
SPARED["cluster"] = dict.fromkeys(
    ("expiry", "noise", "back", "restart", "reboot", "cut"),
    "what befalls one server alone is the same for a node: the lock's worlds",
)
SPARED["latch"] = SPARED["barrier"] = SPARED["event"]


def public(name):
    kind = getattr(fencelock, name)
    return [each for each in dir(kind) if not each.startswith("_") or each in SPECIAL]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_call_is_explored_or_left_out_for_a_reason(name):
    known = [
        call
        for call in public(name)
        if f"{name}.{call}" in SENT or {call, name, f"{name}.{call}"} & LEFT_OUT.keys()
    ]
    assert public(name) == known


def test_what_is_named_is_there():
    calls = {call.partition(" ")[0] for call in SENT} | {name for name in LEFT_OUT if "." in name}
    there = {f"{name}.{call}" for name in NAMES for call in public(name)}
    assert calls - there == set()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("family", "call"), [(family, call) for family, calls in CALLS.items() for call in calls]
)
def test_every_fault_meets_every_call(family, call):
    worlds = met()[call]
    assert worlds
    faults = {*FAULTS, *(clusters.FAULTS if family == "cluster" else ())}
    assert faults - seen(worlds) - SPARED.get(family, {}).keys() == set()
