"""Events as entries of structlog."""

import pytest

from fencelock.instrumentation import set_hooks, structlog_hook

structlog = pytest.importorskip("structlog")


def test_entries_have_the_fields_of_the_event(client):
    set_hooks([structlog_hook()])
    with structlog.testing.capture_logs() as entries, client.lock("a", template="a{}"):
        pass
    assert [each["event"] for each in entries] == [
        "lock_requested",
        "lock_granted",
        "lock_released",
    ]
    granted = entries[1]
    assert (granted["name"], granted["template"], granted["log_level"]) == ("a", "a{}", "debug")
    assert granted["waited_seconds"] > 0
