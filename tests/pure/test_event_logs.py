"""instrumentation/logs.py: what a line of the log says of an event."""

import logging
from types import SimpleNamespace

import pytest

from fencelock.instrumentation import logs

KNOWN = {
    "object": "lock",
    "template": "lock",
    "server": "redis://h",
    "who": {"unit": "worker-1"},
    "behind": {},
    "fence": 7,
    "waited": 0.5,
    "held": 0.0,
    "ahead": None,
    "reason": "",
    "detail": "",
    "error": None,
    "kind": "granted",
    "name": "a",
}


def event(**more):
    return SimpleNamespace(**(KNOWN | more))


def test_only_what_is_known_is_told():
    assert logs.fields_of(event()) == {
        "object": "lock",
        "template": "lock",
        "server": "redis://h",
        "unit": "worker-1",
        "fence": 7,
        "waited_seconds": 0.5,
    }


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"error": ValueError("no")}, {"error": "ValueError('no')"}),
        ({"behind": {"unit": "worker-2"}, "ahead": 3}, {"behind": "worker-2", "ahead": 3}),
        ({"reason": "expired", "detail": "late"}, {"reason": "expired", "detail": "late"}),
        ({"held": 2.5}, {"held_seconds": 2.5}),
        ({"who": {"unit": "u", "label": "l"}}, {"unit": "u", "label": "l"}),
    ],
)
def test_what_an_event_adds_is_told(more, told):
    assert told.items() <= logs.fields_of(event(**more)).items()


def test_a_line_names_the_event_the_lock_and_the_fields(caplog):
    with caplog.at_level(logging.DEBUG, "fencelock.events"):
        logs.LoggingHook()(event(error=ValueError("no")))
    (record,) = caplog.records
    assert record.getMessage().startswith("granted 'a' object=lock")
    assert "error=ValueError('no')" in record.getMessage()
    assert record.fencelock["event"] == "granted"
    assert record.fencelock["fence"] == 7
