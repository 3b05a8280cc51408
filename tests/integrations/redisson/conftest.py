"""Members of a lock in Java beside some in Python; without Java the tests are skipped."""

import contextlib

import pytest

from tests.integrations.redisson.members import Java, Missing, Python, built

NEWEST, OLDER = "4.7.0", "3.52.0"
# Long enough for a machine that stands still for moments, short enough to wait for its end.
WATCHDOG_MS = 3_000


@pytest.fixture(scope="session")
def class_path_of(tmp_path_factory):
    """Build the program once for each version of Redisson; skip where that cannot be."""
    found = {}

    def built_once(version):
        if version not in found:
            try:
                found[version] = built(tmp_path_factory.mktemp("redisson"), version)
            except Missing as missing:
                found[version] = missing
        if isinstance(found[version], Missing):
            pytest.skip(str(found[version]))
        return found[version]

    return built_once


class Members:
    """Starts members, and ends them with the test."""

    def __init__(self, stack, class_path_of, url, python_url=None):
        self._stack, self._class_path_of = stack, class_path_of
        self._url, self._python_url = url, python_url or url

    def java(self, version=NEWEST, **properties):
        path = self._class_path_of(version)
        given = {"watchdog": WATCHDOG_MS, "short": True, **properties}
        return self._stack.enter_context(contextlib.closing(Java(path, self._url, **given)))

    def python(self, face):
        member = Python(face, self._python_url, watchdog=WATCHDOG_MS)
        return self._stack.enter_context(contextlib.closing(member))


@pytest.fixture
def members(class_path_of, server):
    """Start members that a test may freeze and kill."""
    with contextlib.ExitStack() as stack:
        yield Members(stack, class_path_of, server.tcp_url)


@pytest.fixture(scope="module")
def shared_members(class_path_of, shared_server):
    with contextlib.ExitStack() as stack:
        yield Members(stack, class_path_of, shared_server.tcp_url)


@pytest.fixture(scope="module", params=[NEWEST, OLDER])
def java(request, shared_members):
    """Lend a JVM that no test may freeze or kill, for each version."""
    return shared_members.java(request.param).ready()


@pytest.fixture(scope="module", params=["threads", "asyncio"])
def python(request, shared_members):
    return shared_members.python(request.param).ready()
