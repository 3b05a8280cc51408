"""options.py: what is accepted, and what is refused by which error, before anything is sent."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from unittest.mock import Mock

import pytest

from fencelock import Poll, Queue, options
from fencelock.scripts.constants import FENCE_ROOM

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(30, 30.0), (0.5, 0.5), (timedelta(minutes=2), 120.0), (timedelta(microseconds=1), 1e-6)],
)
def test_a_span_is_a_number_or_a_timedelta(value, seconds):
    assert options.span("x", value) == seconds
    assert isinstance(options.span("x", value), float)


@pytest.mark.parametrize("value", [True, False, None, "1", b"1", 1j, [1], datetime.now(UTC)])
def test_a_span_of_another_type_is_a_type_error(value):
    with pytest.raises(TypeError, match="the thing"):
        options.span("the thing", value)


@pytest.mark.parametrize("value", [0, -1, 0.0, NAN, INF, -INF, timedelta(0)])
def test_positive_means_above_zero_and_finite(value):
    with pytest.raises(ValueError, match="the thing"):
        options.positive("the thing", value)


HUGE = [10**400, 10**5000]  # the second one has more digits than Python writes


@pytest.mark.parametrize("value", HUGE, ids=["float", "digits"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_beyond_any_float_is_out_of_bounds_like_another(value, sign):
    """It is no bare error about a float, or about digits."""
    for check in (options.positive, options.count):
        with pytest.raises(ValueError, match=r"^the thing must be .* a number of some \d+ digits"):
            check("the thing", sign * value)
    for bounded in (options.lease_ttl, options.idle_ttl):
        with pytest.raises(ValueError, match="must be between"):
            bounded(sign * value)
    with pytest.raises(ValueError, match="linger must be above"):
        options.linger(sign * value, 30.0)


@pytest.mark.parametrize("value", HUGE, ids=["float", "digits"])
def test_a_timeout_beyond_any_float_is_too_large_like_another(value):
    with pytest.raises(OverflowError, match="timeout value is too large: None waits for ever"):
        options.wait_timeout(value)
    for bounded in (options.acquire_timeout, options.semaphore_timeout):
        with pytest.raises(OverflowError, match="timeout value is too large: None waits for ever"):
            bounded(value, blocking=True)


@pytest.mark.parametrize("value", [0.01, 1, 30, 86_400 * 365, timedelta(days=3650)])
def test_a_ttl_may_be_ten_milliseconds_to_ten_years(value):
    assert options.lease_ttl(value) > 0


@pytest.mark.parametrize("value", [0, -1, 0.009, 4e8, 2**63, INF, NAN, timedelta(days=3651)])
def test_a_ttl_beyond_that_is_a_value_error(value):
    with pytest.raises(ValueError, match="ttl"):
        options.lease_ttl(value)


def test_an_instant_needs_a_time_zone():
    left = options.until(datetime.now(UTC) + timedelta(seconds=10))
    assert 9 < left <= 10
    assert options.until(datetime.now(UTC) - timedelta(seconds=10)) < -9
    with pytest.raises(ValueError, match="timezone"):
        options.until(datetime(2100, 1, 1))  # noqa: DTZ001 - the mistake that is tested


@pytest.mark.parametrize("name", ["a", " ", "\n", "é" * 512, "x" * 1024, "{}", "🔒"])
def test_a_name_is_any_text_of_1_to_1024_bytes(name):
    assert options.lock_name(name) == name


@pytest.mark.parametrize(
    ("name", "error"),
    [("", ValueError), ("x" * 1025, ValueError), ("é" * 513, ValueError), ("\udc80", ValueError)]
    + [(value, TypeError) for value in (None, b"a", 1, ["a"])],
)
def test_other_names_are_refused(name, error):
    with pytest.raises(error, match="name"):
        options.lock_name(name)


@pytest.mark.parametrize("value", [None, b"", 1])
def test_a_prefix_is_text(value):
    assert options.key_prefix("") == ""
    with pytest.raises(TypeError, match="key_prefix"):
        options.key_prefix(value)
    with pytest.raises(ValueError, match="key_prefix must be encodable"):
        options.key_prefix("\udc80")


@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_a_count_is_a_whole_number_from_one(value, error):
    assert options.count("tries", 1) == 1
    with pytest.raises(error, match="tries"):
        options.count("tries", value)


@pytest.mark.parametrize(("value", "error"), [("", ValueError), (b"x", TypeError), (0, TypeError)])
def test_a_text_is_not_empty(value, error):
    with pytest.raises(error, match="label"):
        options.text("label", value)


@pytest.mark.parametrize(
    ("timeout", "patience"),
    [(-1, None), (None, None), (0, 0.0), (2, 2.0), (timedelta(seconds=1), 1.0), (9e9, 9e9)],
)
def test_a_timeout_means_what_it_means_to_threading(timeout, patience):
    assert options.acquire_timeout(timeout, blocking=True) == patience


@pytest.mark.parametrize(
    ("timeout", "blocking", "error"),
    [
        (1, False, ValueError),
        (0, False, ValueError),
        (-2, True, ValueError),
        (-0.5, True, ValueError),
        (1e10, True, OverflowError),
        (INF, True, OverflowError),
        (NAN, True, ValueError),
        ("1", True, TypeError),
        (True, True, TypeError),
    ],
)
def test_a_timeout_that_cannot_be_is_refused(timeout, blocking, error):
    with pytest.raises(error, match="timeout"):
        options.acquire_timeout(timeout, blocking=blocking)


@pytest.mark.parametrize(
    ("timeout", "patience"), [(None, None), (2, 2.0), (0, 0.0), (-0.5, 0.0), (-1, 0.0), (-9, 0.0)]
)
def test_a_wait_for_a_state_looks_once_when_its_timeout_is_0_or_less(timeout, patience):
    assert options.wait_timeout(timeout) == patience


def test_one_try_is_not_a_wait_of_no_time():
    assert options.acquire_timeout(-1, blocking=False) not in {None, 1.0}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"interval": 0}, ValueError),
        ({"interval": -1}, ValueError),
        ({"interval": NAN}, ValueError),
        ({"interval": "1"}, TypeError),
        ({"max_tries": 0}, ValueError),
        ({"max_tries": 1.5}, TypeError),
        ({"max_tries": True}, TypeError),
    ],
)
def test_polling_checks_its_options(given, error):
    with pytest.raises(error):
        Poll(**given)


def test_ways_to_wait_are_values():
    assert Poll(interval=timedelta(seconds=2)) == Poll(interval=2)
    assert hash(Queue()) == hash(Queue())
    assert Poll().interval == 0.1


@pytest.mark.parametrize("patience", [options.acquire_timeout, options.semaphore_timeout])
def test_blocking_is_true_or_false(patience):
    """``acquire(1)`` waits one second in other libraries, and would wait for ever here."""
    for value in (1, 0, 5, 0.5, 1.0, -1, None, "no", []):
        with pytest.raises(TypeError, match="timeout="):
            patience(None, blocking=value)
    for seconds in (1, 0.5, timedelta(seconds=1)):
        with pytest.raises(TypeError, match=re.escape(f"timeout={seconds!r}")):
            patience(None, blocking=seconds)
    assert patience(None, blocking=True) is None
    assert patience(None if "sem" in patience.__name__ else -1, blocking=False) == options.NO_WAIT


class Told:
    def told(self, lease):
        """Be called with the lease."""

    def __call__(self, lease):
        """Likewise."""

    def nothing(self):
        """Be called without anything."""


def two(lease, reason):
    """Want too much."""


def named(lease, *, reason):
    """Likewise."""


def positional(lease, /, *, label="x"):
    """Be called with the lease."""


class Kept:
    def __init__(self, lease):
        """Be made with the lease."""


@pytest.mark.parametrize(
    "value",
    [
        *(print, [].append, lambda lease: None, lambda *leases: None, lambda lease, *, x=1: x),
        *(Told().told, Told(), partial(two, reason="x"), partial(two, "first"), positional, Kept),
        *(partial(named, reason=1), lambda lease=None: lease, Mock(), partial(Told.told, Told())),
    ],
)
def test_a_callback_that_takes_the_lease_is_accepted(value):
    assert options.callback("on_lost", value, asynchronous=False) is value


@pytest.mark.parametrize(
    "value",
    [
        *(lambda: None, two, named, Told().nothing, partial(two, 1, 2), partial(two)),
        *(lambda *, lease: lease, partial(named), Told.told),
    ],
)
def test_a_callback_that_cannot_take_the_lease_is_refused_at_once(value):
    """A loss would be the first to call it, and a TypeError in the log all that came of it."""
    with pytest.raises(TypeError, match="on_lost is called with one argument, the lease"):
        options.callback("on_lost", value, asynchronous=False)


def test_a_callback_without_arguments_is_called_without():
    options.callback("action", lambda: None, asynchronous=False, given="")
    with pytest.raises(TypeError, match="action is called with no arguments"):
        options.callback("action", lambda party: party, asynchronous=False, given="")


def test_the_bound_of_a_cohort_is_checked():
    """I3: no cohort takes more turns than the scripts leave fences for."""
    assert options.TURNS_MAX <= FENCE_ROOM
    assert options.Cohort(turns=options.TURNS_MAX).turns == options.TURNS_MAX
    for wrong in ({"turns": options.TURNS_MAX + 1}, {"turns": 0}, {"seconds": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            options.Cohort(**wrong)
    with pytest.raises(TypeError, match="cohort must be"):
        options.cohort(True)
