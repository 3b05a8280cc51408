"""Where a server of one's own would exclude nobody, none is started."""

from __future__ import annotations

import pytest

from fencelock.embedded import ensure
from fencelock.embedded.policy import refuse_start
from fencelock.errors import ServerUnreachable


def nothing(_path):
    return False


@pytest.mark.parametrize("mark", ["/.dockerenv", "/run/.containerenv"])
def test_a_container_is_refused_by_its_mark(mark):
    with pytest.raises(ServerUnreachable, match="container") as caught:
        refuse_start({}, mark.__eq__, "posix")
    assert mark in str(caught.value)
    assert "FENCELOCK_URL" in str(caught.value)
    assert "FENCELOCK_EMBEDDED=1" in str(caught.value)


def test_kubernetes_is_refused():
    with pytest.raises(ServerUnreachable, match="KUBERNETES_SERVICE_HOST"):
        refuse_start({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, nothing, "posix")


def test_a_container_is_accepted_when_asked_for():
    refuse_start(
        {"FENCELOCK_EMBEDDED": "1", "KUBERNETES_SERVICE_HOST": "x"}, lambda _: True, "posix"
    )


@pytest.mark.parametrize("environ", [{}, {"FENCELOCK_EMBEDDED": ""}, {"FENCELOCK_EMBEDDED": "1"}])
def test_an_ordinary_machine_is_accepted(environ):
    refuse_start(environ, nothing, "posix")


def test_the_switch_forbids():
    with pytest.raises(ServerUnreachable, match="FENCELOCK_EMBEDDED=0"):
        refuse_start({"FENCELOCK_EMBEDDED": "0"}, nothing, "posix")


def test_another_word_on_the_switch_is_an_error():
    with pytest.raises(ValueError, match="must be 0 or 1"):
        refuse_start({"FENCELOCK_EMBEDDED": "yes"}, nothing, "posix")


def test_windows_is_told_what_to_do():
    with pytest.raises(ServerUnreachable, match="FENCELOCK_URL"):
        refuse_start({"FENCELOCK_EMBEDDED": "1"}, nothing, "nt")


def test_ensure_asks_for_permission_first(world, monkeypatch):
    monkeypatch.setenv("FENCELOCK_EMBEDDED", "0")
    with pytest.raises(ServerUnreachable, match="FENCELOCK_EMBEDDED=0"):
        ensure()
    assert not world.here.exists()
