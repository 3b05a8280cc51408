"""CPython's own tests of ``threading``'s objects, run with ours (Lib/test/lock_tests.py)."""

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

# What an object of many processes cannot be, or does not want to be → why, and how it fails.
OWNED = (
    "permits are leases with owners: who holds none has none to give, and a value above the limit"
    " would let more in than the limit says; set_limit() raises it for everybody"
)
VALUE = "our repr tells the limit and what this handle holds: the value is the server's"
PRIVATE = "it is private to threading"
LEFT_OUT = {
    "LockTests.test_at_fork_reinit": (PRIVATE, "_at_fork_reinit"),
    "RLockTests.test_release_save_unacquired": (PRIVATE, "_release_save"),
    "RLockTests.test_recursion_count": (PRIVATE, "_recursion_count"),
    "RLockTests.test__is_owned": ("it is private; owned() asks the server", "_is_owned"),
    "SemaphoreTests.test_release_unacquired": (OWNED, "NotHeld"),
    "SemaphoreTests.test_repr": (VALUE, "Regex didn't match"),
    "BoundedSemaphoreTests.test_repr": (VALUE, "Regex didn't match"),
    "EventTests.test_at_fork_reinit": (PRIVATE, "_cond"),
}
LOCKS = {
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
SEMAPHORES = {
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
KNOWN = {
    "LockTests": LOCKS | {"test_at_fork_reinit", "test_state_after_timeout"},
    "RLockTests": LOCKS
    | {
        "test__is_owned",
        "test_recursion_count",
        "test_release_save_unacquired",
        "test_release_unacquired",
    },
    "SemaphoreTests": SEMAPHORES,
    "BoundedSemaphoreTests": SEMAPHORES,
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
MADE = {
    "LockTests": ("locktype", "lock"),
    "RLockTests": ("locktype", "rlock"),
    "SemaphoreTests": ("semtype", "semaphore"),
    "BoundedSemaphoreTests": ("semtype", "bounded_semaphore"),
    "EventTests": ("eventtype", "event"),
    "BarrierTests": ("barriertype", "barrier"),
}


def cases(suite: str) -> list[str]:
    return sorted(unittest.TestLoader().getTestCaseNames(getattr(lock_tests, suite)))


@pytest.fixture(scope="module")
def client():
    """Lend one client; the lease it holds keeps its thread from coming and going in a test."""
    with Server() as server, fencelock.Client(server.url) as made, made.lock("kept"):
        yield made


def ours(client, suite: str) -> type[unittest.TestCase]:
    """Return their suite with our object in the place of theirs, each of a name of its own."""
    role, kind = MADE[suite]
    of_client = getattr(client, kind)

    def make(*args, **options):
        return of_client(uuid.uuid4().hex, *args, **options)

    def make_semaphore(value=1):
        return make(value)

    factory = staticmethod(make_semaphore if role == "semtype" else make)
    patient = {"defaultTimeout": 8.0}  # of their barriers, else 2 s
    return type(suite, (getattr(lock_tests, suite),), {role: factory, **patient})


# Their tests drop what they hold: that is a mistake we warn of.
@pytest.mark.filterwarnings("ignore:a handle of:ResourceWarning")
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("suite", "case"), [(suite, case) for suite in KNOWN for case in cases(suite)]
)
def test_cpython(client, suite, case):
    """Ours stand where threading's stand, but for what is left out with a reason."""
    result = unittest.TestResult()
    ours(client, suite)(case).run(result)
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
