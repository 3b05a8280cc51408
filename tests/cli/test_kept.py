"""What the command line shows of a lease that its client keeps and does not use."""

import threading

import pytest

import fencelock
from tests.cli.shell import eventually


class Keeper:
    """A client that takes a lock again and again: between, it keeps the lease."""

    def __init__(self, url):
        self._client = fencelock.Client(url, label="ann")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def _take(self):
        lock = self._client.lock("a", linger=0.5)
        while not self._over.wait(0.02):
            with lock:
                pass

    def rest(self):
        """Take it no more."""
        self._over.set()
        self._thread.join()

    def close(self):
        self.rest()
        self._client.close()


@pytest.fixture
def keeper(server):
    lent = Keeper(server.url)
    yield lent
    lent.close()


def test_a_kept_lease_is_not_held(shell, keeper):
    def kept():
        info = shell("show", "a", "--json").json
        return info["kept"] and info

    info = eventually(kept)
    assert info["held"] is False
    assert info["holder"]["label"] == "ann"
