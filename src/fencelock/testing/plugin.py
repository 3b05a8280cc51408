"""A plugin of pytest: a private server, clients, helpers, and a check that nothing stays held.

Rules of this file:

- A run that uses none of the fixtures pays for the import of this module, and for nothing else.
- With xdist the controller holds the directory of the run; the workers share the server in it.
- After each test, what it left on the server is removed. What it still holds is an error, unless it
  is marked with ``fencelock_leaves_held``.
"""
# ruff: noqa: PLC0415 - as said above: what a run does not use is not imported

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from fencelock.testing.lending import LEAVES_HELD, complain, left_by, lend_async

if TYPE_CHECKING:
    from fencelock import AsyncClient, Client
    from fencelock._core.lock.hold import Hold
    from fencelock.instrumentation import OrderChecker
    from fencelock.testing.run_dir import RunDirectory
    from fencelock.testing.server import PrivateServer

T = TypeVar("T")

_RUN: pytest.StashKey[RunDirectory] = pytest.StashKey()
_SERVER: pytest.StashKey[PrivateServer] = pytest.StashKey()
_BEFORE: pytest.StashKey[set[Hold]] = pytest.StashKey()
_ORDERS: pytest.StashKey[OrderChecker] = pytest.StashKey()
_TOLD: pytest.StashKey[int] = pytest.StashKey()  # of the checker's reports
ORDER = "fencelock_order"
ANY_ORDER = "fencelock_any_order"
# The database 0 is the run's; a lone process has 1, the workers of xdist those after it.
_FIRST_DATABASE = 1


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let projects choose over what the orders of locks are compared."""
    text = "compare the orders of locks within a test, within the run, or not: test, run or off"
    parser.addini(ORDER, text, default="test")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the fixture for pytest-asyncio where that is used."""
    config.addinivalue_line(
        "markers", f"{LEAVES_HELD}: locks that are held at the end of the test are no error"
    )
    config.addinivalue_line(
        "markers", f"{ANY_ORDER}: locks that are taken in different orders are no error"
    )
    chosen = config.getini(ORDER)
    if chosen not in {"test", "run", "off"}:
        raise pytest.UsageError(f"{ORDER} must be test, run or off, not {chosen!r}")
    if config.pluginmanager.hasplugin("asyncio"):
        from fencelock.testing import with_pytest_asyncio

        config.pluginmanager.register(with_pytest_asyncio)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist which directory all share."""
    node.workerinput["fencelock_run"] = str(_run_of(node.config).directory)


def _run_of(config: pytest.Config) -> RunDirectory:
    from fencelock.testing.run_dir import RunDirectory

    if _RUN not in config.stash:
        config.stash[_RUN] = RunDirectory()
    return config.stash[_RUN]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave the server: after the check of the last test, whose teardown ends all fixtures."""
    server = session.config.stash.get(_SERVER, None)
    if server is not None:
        _stop_orders(session.config)
        del session.config.stash[_SERVER]
        server.close()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run's server."""
    run = config.stash.get(_RUN, None)
    if run is not None:
        del config.stash[_RUN]
        run.end()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Note what is held before a test: by a fixture of the session, for one."""
    server = item.config.stash.get(_SERVER, None)
    if server is not None:
        item.stash[_BEFORE] = set(server.held())
        if item.config.getini(ORDER) == "test":
            _check_orders(item.config)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """See that a test leaves nothing held, once its fixtures have ended."""
    left: list[str] = []
    try:
        result = yield
    finally:
        server = item.config.stash.get(_SERVER, None)
        if server is not None:
            before = item.stash.get(_BEFORE, set())
            left = [words for hold, words in server.held().items() if hold not in before]
            left += server.dropped(but=before)
            if not before:
                server.clear()
    complain(item, left)
    checker = item.config.stash.get(_ORDERS, None)
    seen, reports = item.config.stash.get(_TOLD, 0), () if checker is None else checker.reports
    item.config.stash[_TOLD] = len(reports)
    if reports[seen:] and item.get_closest_marker(ANY_ORDER) is None:
        pytest.fail("\n".join(map(str, reports[seen:])), pytrace=False)
    return result


def _check_orders(config: pytest.Config) -> None:
    """Begin to compare the orders of locks, instead of the checker of before."""
    from fencelock._core import events
    from fencelock.instrumentation import OrderChecker

    _stop_orders(config)
    config.stash[_ORDERS], config.stash[_TOLD] = OrderChecker(), 0
    events.install(config.stash[_ORDERS])


def _stop_orders(config: pytest.Config) -> None:
    checker = config.stash.get(_ORDERS, None)
    if checker is not None:
        from fencelock._core import events

        events.uninstall(checker)
        del config.stash[_ORDERS]


@pytest.fixture(scope="session")
def fencelock_server(request: pytest.FixtureRequest) -> PrivateServer:
    """Lend a real server, private to this run; its ``url`` is for the program under test."""
    from fencelock.testing.run_dir import attach
    from fencelock.testing.server import PrivateServer

    config = request.config
    given = getattr(config, "workerinput", {})
    directory = given.get("fencelock_run") or _run_of(config).directory
    number = int("".join(filter(str.isdigit, given.get("workerid", ""))) or -1)
    server = PrivateServer(attach(Path(directory)), _FIRST_DATABASE + 1 + number)
    config.stash[_SERVER] = server
    if config.getini(ORDER) != "off":
        _check_orders(config)
    return server


@pytest.fixture
def fencelock_client(
    request: pytest.FixtureRequest, fencelock_server: PrivateServer
) -> Iterator[Client]:
    """Lend a client of the private server; what the test still holds by it is an error."""
    from fencelock import Client

    client = Client(fencelock_server.url)
    yield client
    left = left_by(client, fencelock_server)
    client.close(release=bool(left), timeout=1)
    complain(request.node, left)


@pytest.fixture
def fencelock_async_client(
    request: pytest.FixtureRequest, fencelock_server: PrivateServer
) -> AsyncClient:
    """Lend an asyncio client of the private server.

    With pytest-asyncio or anyio it is closed after the test; a test that runs its own loop uses
    ``async with``.
    """
    from fencelock import AsyncClient

    client: AsyncClient
    if request.node.get_closest_marker("anyio") or "anyio_backend" in request.fixturenames:
        client = request.getfixturevalue("_fencelock_anyio_client")
    elif request.node.get_closest_marker("asyncio"):
        client = request.getfixturevalue("_fencelock_asyncio_client")
    else:
        client = AsyncClient(fencelock_server.url)
    return client


@pytest.fixture
async def _fencelock_anyio_client(
    request: pytest.FixtureRequest,
    fencelock_server: PrivateServer,
    anyio_backend: object,  # noqa: ARG001 - by it anyio knows that this is its fixture
) -> AsyncIterator[AsyncClient]:
    async for client in lend_async(request, fencelock_server):
        yield client


@pytest.fixture(scope="session")
def once_per_run(fencelock_server: PrivateServer) -> Callable[[str, Callable[[], T]], T]:
    """Run a function in one process of the test run: ``once_per_run(name, function)``.

    Every worker of xdist gets its result, a value that JSON can represent. For session fixtures.
    """
    return fencelock_server.once_per_run
