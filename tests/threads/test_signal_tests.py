"""CPython's own tests of Event and Barrier, run with ours (Lib/test/lock_tests.py)."""

from __future__ import annotations

import sys
import unittest
import uuid

import pytest

import fencelock
from tests.servers import Server

try:
    from test import lock_tests
except ImportError:  # Debian ships Python without its tests
    pytest.skip("this Python comes without its own test package", allow_module_level=True)

# What cannot be, or does not want to be → why, and what its failure says.
LEFT_OUT = {
    "EventTests.test_at_fork_reinit": (
        "_at_fork_reinit and _cond are private to threading",
        "_cond",
    ),
}
KNOWN = {
    "EventTests": {
        "test_at_fork_reinit",
        "test_is_set",
        "test_notify",
        "test_repr",
        "test_set_and_clear",
        "test_timeout",
    },
    "BarrierTests": {
        "test_abort",
        "test_abort_and_reset",
        "test_action",
        "test_barrier",
        "test_barrier_10",
        "test_default_timeout",
        "test_repr",
        "test_reset",
        "test_single_thread",
        "test_timeout",
        "test_wait_return",
    },
}
if sys.version_info >= (3, 13):
    KNOWN["BarrierTests"].add("test_constructor")


def cases(suite: str) -> list[str]:
    return sorted(unittest.TestLoader().getTestCaseNames(getattr(lock_tests, suite)))


@pytest.fixture(scope="module")
def client():
    """Lend one client; the lease it holds keeps its thread from coming and going in a test."""
    with Server() as server, fencelock.Client(server.url) as made, made.lock("kept"):
        yield made


def factories(client) -> dict[str, object]:
    """Return ours in the place of theirs; each has a name of its own, and is somebody else's."""

    def barrier(*args, **options):
        return client.barrier(uuid.uuid4().hex, *args, **options)

    return {
        "eventtype": staticmethod(lambda: client.event(uuid.uuid4().hex)),
        "barriertype": staticmethod(barrier),
    }


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("suite", "case"), [(suite, case) for suite in KNOWN for case in cases(suite)]
)
def test_cpython(client, suite, case):
    """Ours stand where threading's stand, but for what is left out with a reason."""
    patient = {"defaultTimeout": 8.0}  # of their barriers, else 2 s
    theirs = type(suite, (getattr(lock_tests, suite),), factories(client) | patient)
    result = unittest.TestResult()
    theirs(case).run(result)
    troubles = [text for _, text in (*result.failures, *result.errors)]
    if f"{suite}.{case}" in LEFT_OUT:
        assert troubles, "it passes: strike it from LEFT_OUT"
        assert LEFT_OUT[f"{suite}.{case}"][1] in troubles[0], troubles[0]
        return
    assert not troubles, troubles[0]
    assert result.skipped == []


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="read against 3.11 to 3.13")
@pytest.mark.parametrize("suite", KNOWN)
def test_the_cases_are_those_we_know(suite):
    """A new Python's new cases are looked at, not just run."""
    assert set(cases(suite)) == KNOWN[suite]


def test_what_is_left_out_exists():
    """A reason without a case is dead text."""
    known = {f"{suite}.{case}" for suite, names in KNOWN.items() for case in names}
    assert set(LEFT_OUT) <= known
