"""CPython's own tests of ``threading``'s semaphores, run with ours (Lib/test/lock_tests.py)."""

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

# What a semaphore of many processes cannot be, or does not want to be → why, and how it ends.
OWNED = (
    "permits are leases with owners: who holds none has none to give, and a value above the limit"
    " would let more in than the limit says; set_limit() raises it for everybody"
)
VALUE = "our repr tells the limit and what this handle holds: the value is the server's"
LEFT_OUT = {
    "SemaphoreTests.test_release_unacquired": (OWNED, "NotHeld"),
    "SemaphoreTests.test_repr": (VALUE, "Regex didn't match"),
    "BoundedSemaphoreTests.test_repr": (VALUE, "Regex didn't match"),
}
BASE = {
    "test_acquire",
    "test_acquire_contended",
    "test_acquire_destroy",
    "test_acquire_timeout",
    "test_constructor",
    "test_default_value",
    "test_multirelease",
    "test_release_unacquired",
    "test_repr",
    "test_try_acquire",
    "test_try_acquire_contended",
    "test_with",
}
SUITES = ("SemaphoreTests", "BoundedSemaphoreTests")


def cases(suite: str) -> list[str]:
    return sorted(unittest.TestLoader().getTestCaseNames(getattr(lock_tests, suite)))


@pytest.fixture(scope="module")
def client():
    """Lend one client; the lease it holds keeps its thread from coming and going in a test."""
    with Server() as server, fencelock.Client(server.url) as made, made.lock("kept"):
        yield made


# Their tests drop semaphores that they hold: that is a mistake we warn of.
@pytest.mark.filterwarnings("ignore:a handle of:ResourceWarning")
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("suite", "case"), [(suite, case) for suite in SUITES for case in cases(suite)]
)
def test_cpython(client, suite, case):
    """Our semaphores stand where threading's stand, but for what is left out with a reason."""
    make = client.semaphore if suite == "SemaphoreTests" else client.bounded_semaphore
    factory = staticmethod(lambda value=1: make(uuid.uuid4().hex, value))
    theirs = type(suite, (getattr(lock_tests, suite),), {"semtype": factory})
    result = unittest.TestResult()
    theirs(case).run(result)
    troubles = [text for _, text in (*result.failures, *result.errors)]
    if f"{suite}.{case}" in LEFT_OUT:
        _, ends = LEFT_OUT[f"{suite}.{case}"]
        assert troubles, "it passes: strike it from LEFT_OUT"
        assert ends in troubles[0], troubles[0]
        return
    assert not troubles, troubles[0]
    assert result.skipped == []


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="read against 3.11 to 3.13")
@pytest.mark.parametrize("suite", SUITES)
def test_the_cases_are_those_we_know(suite):
    """A new Python's new cases are looked at, not just run."""
    assert set(cases(suite)) == BASE


def test_what_is_left_out_exists():
    """A reason without a case is dead text."""
    assert set(LEFT_OUT) <= {f"{suite}.{case}" for suite in SUITES for case in BASE}
