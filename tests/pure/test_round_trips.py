"""_core/round_trips.py: what is awaited for how long, by the round trips that were seen."""

import pytest

from fencelock._core.round_trips import (
    ANSWER_TRIPS,
    DIAL_SECONDS,
    DIAL_TRIPS,
    LONGER,
    SILENT_SECONDS,
    RoundTrips,
)
from fencelock._io.sources.kinds import Cloned, silence

NEAR, FAR, MOST = 0.001, 1.0, 60.0


def seen(*trips):
    found = RoundTrips()
    for each in trips:
        found.saw(each)
    return found


def test_a_far_server_may_be_silent_for_longer_and_a_near_one_never():
    assert seen(FAR).silence == FAR * ANSWER_TRIPS
    assert seen(NEAR).silence == RoundTrips().silence == SILENT_SECONDS


def test_one_late_answer_changes_nothing_and_one_quick_answer_ends_what_late_ones_began():
    trips = seen(NEAR, FAR)
    assert trips.silence == SILENT_SECONDS
    assert trips.watched, "the next answer is noted, also a quick one"
    trips.saw(FAR)
    assert trips.silence > SILENT_SECONDS
    trips.saw(NEAR)
    assert trips.silence == SILENT_SECONDS
    assert not trips.watched


def test_a_connection_may_take_longer_after_one_that_was_not_open_in_time():
    trips = seen(NEAR)
    assert trips.to_open(MOST) == DIAL_SECONDS
    trips.missed(DIAL_SECONDS)
    assert trips.to_open(MOST) == DIAL_SECONDS * LONGER
    assert trips.silence == SILENT_SECONDS
    trips.saw(NEAR)
    assert trips.to_open(MOST) == DIAL_SECONDS
    assert seen(FAR).to_open(MOST) == FAR * DIAL_TRIPS


def test_where_nothing_was_seen_a_connection_gets_all_the_time_there_is():
    assert RoundTrips().to_open(MOST) == MOST
    assert RoundTrips(DIAL_SECONDS).to_open(MOST) == DIAL_SECONDS  # there are other servers


@pytest.mark.parametrize(("slower", "counts"), [(0, 3.0), (1, 2.0)])
def test_of_several_the_slowest_counts_that_is_needed(slower, counts):
    whole = RoundTrips().of_several(slower)
    for seconds in (2.0, 3.0, 1.0):
        whole.part().saw(seconds)
    assert whole.seconds == counts


def test_one_that_never_answered_is_no_reason_to_wait_for_the_others():
    whole = RoundTrips().of_several(1)
    whole.part()
    for _ in range(2):
        whole.part().saw(FAR)
    assert whole.seconds == FAR


# --- a renewal -----------------------------------------------------------------------------------


# --- words ---------------------------------------------------------------------------------------


def test_a_server_that_has_spoken_tls_is_not_asked_whether_it_does():
    source = Cloned(type("SSLConnection", (), {}), {}, "the server", set())
    assert "does the server use TLS" in silence(source)
    source.spoken.add("the server")
    assert silence(source) == "the server does not answer"
