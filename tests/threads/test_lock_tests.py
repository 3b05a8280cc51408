"""CPython's own tests of ``threading``'s locks, run with ours (Lib/test/lock_tests.py)."""

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

# What a lock of many processes cannot be, or does not want to be → why.
LEFT_OUT = {
    "LockTests.test_at_fork_reinit": "_at_fork_reinit is private to threading",
    "RLockTests.test_release_save_unacquired": "_release_save is Condition's private door to RLock",
    "RLockTests.test_recursion_count": "_recursion_count is private to threading",
    "RLockTests.test__is_owned": "_is_owned is private to threading; owned() asks the server",
}
BASE = {
    "test_acquire_contended",
    "test_acquire_destroy",
    "test_acquire_release",
    "test_constructor",
    "test_different_thread",
    "test_locked_repr",
    "test_reacquire",
    "test_repr",
    "test_thread_leak",
    "test_timeout",
    "test_try_acquire",
    "test_try_acquire_contended",
    "test_weakref_deleted",
    "test_weakref_exists",
    "test_with",
}
KNOWN = {
    "LockTests": BASE | {"test_at_fork_reinit", "test_state_after_timeout"},
    "RLockTests": BASE
    | {
        "test__is_owned",
        "test_recursion_count",
        "test_release_save_unacquired",
        "test_release_unacquired",
    },
}


def cases(suite: str) -> list[str]:
    return sorted(unittest.TestLoader().getTestCaseNames(getattr(lock_tests, suite)))


@pytest.fixture(scope="module")
def client():
    """Lend one client; the lease it holds keeps its thread from coming and going in a test."""
    with Server() as server, fencelock.Client(server.url) as made, made.lock("kept"):
        yield made


# Their tests drop locks that they hold: that is a mistake we warn of.
@pytest.mark.filterwarnings("ignore:a handle of:ResourceWarning")
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("suite", "case"), [(suite, case) for suite in KNOWN for case in cases(suite)]
)
def test_cpython(client, suite, case):
    """Our locks stand where threading's stand, but for what is left out with a reason."""
    make = client.lock if suite == "LockTests" else client.rlock
    factory = staticmethod(lambda: make(uuid.uuid4().hex))
    theirs = type(suite, (getattr(lock_tests, suite),), {"locktype": factory})
    result = unittest.TestResult()
    theirs(case).run(result)
    troubles = [text for _, text in (*result.failures, *result.errors)]
    if f"{suite}.{case}" in LEFT_OUT:
        assert troubles, "it passes: strike it from LEFT_OUT"
        assert "AttributeError" in troubles[0], troubles[0]
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
