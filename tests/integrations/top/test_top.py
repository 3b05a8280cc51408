"""``fencelock top`` on a real server, driven by textual's own pilot."""

import argparse
import asyncio
import contextlib
import os
import pty

import pytest

textual = pytest.importorskip("textual")

from textual.widgets import DataTable, Footer, Static  # noqa: E402 - likewise

import fencelock  # noqa: E402 - after the skip
from fencelock.cli._top.app import ORDERS, TopApp, chosen  # noqa: E402 - likewise
from fencelock.cli._top.detail import DetailScreen, RevokeScreen  # noqa: E402 - likewise
from fencelock.cli.session import Session  # noqa: E402 - likewise
from fencelock.status import HolderStatus, LockStatus, WaiterStatus  # noqa: E402 - likewise
from tests.cli.shell import FENCELOCK  # noqa: E402 - likewise

pytestmark = pytest.mark.filterwarnings("ignore:a handle of .* was dropped:ResourceWarning")

PATIENCE = 60


@pytest.fixture
def client(server):
    with fencelock.Client(server.url, label="ann", cohort=None, history=True) as made:
        yield made


@pytest.fixture
def session(server, monkeypatch):
    """Lend a command's session, which leaves the log of this process as it is."""
    monkeypatch.setattr("fencelock.cli.session._hear_the_library", lambda *, verbose: None)
    given = {"url": server.url, "prefix": "fencelock:", "verbose": False}
    with Session(argparse.Namespace(**given)) as made:
        yield made


@pytest.fixture
def app(session):
    return TopApp(session, "*", every=0.02)


async def until(pilot, condition, what="it"):
    async with asyncio.timeout(PATIENCE):
        while not (found := condition()):
            await pilot.pause(0.01)
        return found


def names(app):
    table = app.screen_stack[0].query_one(DataTable)
    return [str(table.get_row_at(place)[0]) for place in range(table.row_count)]


async def listed(pilot, app, expected):
    """Wait until the table has these names.

    The keys are looked through at once, and not in half a minute; a look that had begun before the
    lock was taken ends with the usual pause, so this is said again.
    """

    def look():
        app.overview._scan_at = 0.0
        return names(app) == expected

    await until(pilot, look)


def text_of(screen, widget):
    return str(screen.query_one(widget, Static).content)


def summary(app):
    return text_of(app.screen_stack[0], "#summary")


def driven(test):
    """Run a test of an app in a loop of its own."""

    def run(app, client, server):
        async def whole():
            async with app.run_test(size=(120, 30)) as pilot:
                await test(pilot, app, client, server)

        asyncio.run(whole())

    return run


@driven
async def test_locks_appear_and_go(pilot, app, client, server):
    lock = client.lock("orders:42")
    await asyncio.to_thread(lock.acquire)
    server.command("SET", "fencelock:other", "x", "PX", 60_000)
    await listed(pilot, app, ["orders:42"])
    row = [str(cell) for cell in app.query_one(DataTable).get_row_at(0)]
    assert row[1:3] == ["held", "0"]
    assert row[4] == f"{os.uname().nodename}:{os.getpid()}"
    assert "1 of 1 locks" in summary(app)
    lock.release()
    await until(pilot, lambda: names(app) == [])


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_the_screen_fits_the_terminal(app, client, width):
    held = [client.lock(f"{'name-' * 100}{end}") for end in "12"]

    async def whole():
        async with app.run_test(size=(width, 30)) as pilot:
            table = app.query_one(DataTable)
            await until(pilot, lambda: table.row_count == 2)
            assert [each[-1] for each in names(app)] == ["1", "2"]
            assert table.virtual_size.width <= width
            header = [str(column.label) for column in table.columns.values()]
            assert {"NAME", "STATE", "WAITING", "BLOCKED BY"} <= {*header}
            assert ("LABEL" in header) is (width >= 100)
            if width >= 80:
                assert app.query_one(Footer).virtual_size.width <= width
            await pilot.resize_terminal(40, 30)
            await until(pilot, lambda: table.virtual_size.width <= 60)

    for lock in held:
        lock.acquire()
    asyncio.run(whole())


@driven
async def test_what_is_waited_for_most_comes_first_and_keys_sort_and_filter(
    pilot, app, client, server
):
    held = [client.lock(name) for name in ("a", "b")]
    for lock in held:
        await asyncio.to_thread(lock.acquire)
    waiting = asyncio.create_task(asyncio.to_thread(client.lock("b").acquire))
    await listed(pilot, app, ["b", "a"])
    await pilot.press("n")
    assert names(app) == ["a", "b"]
    assert "by name" in summary(app)
    await pilot.press("w")
    assert names(app) == ["b", "a"]
    await pilot.press("slash", "a", "enter")
    await until(pilot, lambda: names(app) == ["b", "a"])  # the label of both is "ann"
    await pilot.press("slash", "backspace", "b", "enter")
    await until(pilot, lambda: names(app) == ["b"])
    held[1].release()
    assert await waiting


@driven
async def test_one_lock_is_looked_into_and_revoked_with_a_reason(pilot, app, client, server):
    lock = client.lock("orders:42")
    await asyncio.to_thread(lock.acquire)
    lease = lock.lease
    waiting = asyncio.create_task(asyncio.to_thread(client.lock("orders:42").acquire))
    await listed(pilot, app, ["orders:42"])
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, DetailScreen))
    await until(pilot, lambda: "waiters\n  1. " in text_of(app.screen, "#detail"))
    await pilot.press("x")
    await until(pilot, lambda: isinstance(app.screen, RevokeScreen))
    await pilot.press("enter")
    assert isinstance(app.screen, RevokeScreen)  # not without a reason
    assert not lease.lost
    await pilot.press(*"slow", "enter")
    await until(pilot, lambda: isinstance(app.screen, DetailScreen))
    assert await waiting
    await until(pilot, lambda: lease.lost)
    with pytest.raises(fencelock.LeaseLost, match="slow"):
        lease.check()
    await until(pilot, lambda: "lost" in text_of(app.screen, "#detail"))
    await pilot.press("escape", "p")
    assert "paused" in summary(app)


@driven
async def test_names_are_texts_and_never_markup(pilot, app, client, server):
    hostile = "[red]x[/red] \x1b[2J"
    lock = client.lock(hostile, label="[bold]me")
    await asyncio.to_thread(lock.acquire)
    await listed(pilot, app, ["[red]x[/red] \\x1b[2J"])
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, DetailScreen))
    await until(pilot, lambda: "[red]x[/red] \\x1b[2J: held" in text_of(app.screen, "#detail"))
    assert "[bold]me" in text_of(app.screen, "#detail")
    lock.release()


def test_a_server_that_fails_is_said_and_the_screen_goes_on(session, app, monkeypatch):
    def fails(_overview):
        raise fencelock.ServerUnreachable("no answer")

    monkeypatch.setattr(session.operator, "refresh", fails)

    async def whole():
        async with app.run_test() as pilot:
            await until(
                pilot,
                lambda: "NOT REFRESHED: no answer" in summary(app),
            )
            monkeypatch.undo()
            await until(pilot, lambda: "NOT REFRESHED" not in summary(app))

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("order", "names"), [("waiters", "cba"), ("wait", "bca"), ("held", "abc"), ("name", "abc")]
)
def test_the_orders(order, names):
    def lock(name, waits, held):
        waiters = tuple(WaiterStatus(waited=each, label=f"w-{name}") for each in waits)
        holders = (HolderStatus(held_for=held),)
        return LockStatus(name, waiters=waiters, waiting=len(waits), holders=holders)

    locks = [lock("a", [], 9.0), lock("b", [8.0], 2.0), lock("c", [3.0, 1.0], 1.0)]
    assert set(ORDERS) == {"waiters", "wait", "held", "name"}
    assert "".join(each.name for each in chosen(locks, order)) == names
    assert [each.name for each in chosen(locks, order, "W-B")] == ["b"]


def test_without_a_terminal_it_says_what_else_there_is(server):
    import subprocess  # noqa: PLC0415 - for this test

    done = subprocess.run(
        [*FENCELOCK, "top", "--url", server.url], capture_output=True, text=True, check=False
    )
    assert done.returncode == 64
    assert "fencelock ls --watch" in done.stderr


def test_it_runs_in_a_terminal_and_q_ends_it(server):
    pid, terminal = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm-256color"
        os.execv(FENCELOCK[0], [*FENCELOCK, "top", "--url", server.url])
    seen = b""
    try:
        while b"locks" not in seen:
            seen += os.read(terminal, 65536)
        os.write(terminal, b"q")
        with contextlib.suppress(OSError):  # the end of a terminal
            while os.read(terminal, 65536):
                pass
    finally:
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
