"""A server whose wall clock a test can set, by the library of verification's runs.

Only that server sees it. Leases end by this clock; the server's timers and ours are monotonic.
"""

import contextlib

import pytest

from tests.faults.world import wait_until
from tests.servers import Server
from verification.runs import shims

SEEN_SECONDS = 30


def why_not():
    """Return why no such server can be had here, or an empty string."""
    return shims.why_not()


@pytest.fixture(scope="module")
def clocked(tmp_path_factory):
    """Lend a server and what puts its clock forward or back."""
    if why_not():
        pytest.skip(why_not())
    with server_with_a_clock(tmp_path_factory.mktemp("clock")) as lent:
        yield lent


@contextlib.contextmanager
def server_with_a_clock(folder):
    """Yield a server and the function that puts its wall clock so many seconds forward or back."""
    with contextlib.closing(shims.Clock(folder)) as clock:

        def jump(seconds):
            before = int(server.command("TIME")[0])
            clock.jump(seconds)
            # A server looks at its clock between commands: after this it has seen the jump.
            wait_until(
                lambda: abs(int(server.command("TIME")[0]) - before - seconds) < SEEN_SECONDS
            )

        preload = {"LD_PRELOAD": str(shims.library("clock"))}
        with Server(environment=preload | clock.environment) as server:
            yield server, jump
