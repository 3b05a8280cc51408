"""Sockets that gevent or eventlet have put in the place of the system's (monkey patching)."""

from __future__ import annotations

import select
import socket

import pytest

import fencelock


class GreenSocket(socket.socket):
    """As theirs: its kernel socket never blocks, and so the kernel's timeouts end nothing."""

    __module__ = "green"

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Wait as long as ``settimeout`` says, whatever SO_RCVTIMEO says."""
        seconds = self.gettimeout()
        if not select.select([self], [], [], PATIENCE if seconds is None else seconds)[0]:
            assert seconds is not None, "it waited without a timeout"
            raise TimeoutError("timed out")
        return super().recv(size, flags)


PATIENCE = 5.0


@pytest.fixture
def green(monkeypatch):
    """Put it there for one test."""
    monkeypatch.setattr(socket, "socket", GreenSocket)


@pytest.mark.usefixtures("green")
@pytest.mark.parametrize("url", ["url", "tcp_url"])
def test_timeouts_hold(server, prefix, url):
    """They are given to the socket, which keeps them in its own way."""
    with fencelock.Client(getattr(server, url), key_prefix=prefix) as client:
        with client.lock("a"):
            assert client.lock("a").acquire(timeout=0.05) is False
        assert client.event("e").wait(0.05) is False
