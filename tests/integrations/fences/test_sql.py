"""The fence guard in real databases: every driver, every isolation level, two connections."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import textwrap

import pytest

import fencelock
from fencelock.fences import AsyncFenceGuard, FenceGuard, FencingToken, Stale
from tests.integrations.fences.worlds import CASES, WORLDS
from tests.threads.state import ended, thread
from tests.waiting import until

OLD, NEW = FencingToken("orders:42", 33), FencingToken("orders:42", 34)
NAMES = ["a", "A", "x" * 1024, "é", "日本", "it's; --", "nul\0", "%s :key $1 ?", "{}", "tail "]


@pytest.fixture
def make(request, tmp_path):
    with contextlib.ExitStack() as stack:

        def world(name):
            kind, database = WORLDS[name]
            where = tmp_path / "sqlite" if database == "sqlite" else None
            fixture = {"postgresql": "postgres_socket", "mariadb": "mariadb_socket"}.get(database)
            made = kind(where or request.getfixturevalue(fixture), stack)
            made.set_up()
            return made

        yield world


@pytest.fixture
def world(make, request):
    return make(request.param)


def case(*values):
    """Return a case; sqlite3 is always there."""
    marks = pytest.mark.daily if values[0] == "sqlite3" else ()
    return pytest.param(*values, marks=marks, id="-".join(values))


every_world = pytest.mark.parametrize("world", [*map(case, WORLDS)], indirect=True)
every_level = pytest.mark.parametrize(
    ("world", "level"), [case(*each) for each in CASES], indirect=["world"]
)


@every_level
def test_the_older_of_two_is_refused_after_the_newer_has_committed(world, level):
    new = world.open(level)
    new.check(NEW)
    new.write("new")
    new.commit()

    old = world.open(level)
    with pytest.raises(Stale) as refused:
        old.check(OLD)

    assert (refused.value.name, refused.value.fence, refused.value.seen) == ("orders:42", 33, 34)
    old.rollback()
    assert world.open(level).read() == "new"


@every_level
def test_the_older_is_refused_also_if_its_snapshot_is_older(world, level):
    if level == "BEGIN IMMEDIATE":
        return  # no second transaction begins beside it: see the next test but one
    old = world.open(level)
    assert old.read() == "empty"  # its snapshot
    if level in {"BEGIN DEFERRED", "implicit"}:
        old.connection.execute("SELECT 1")  # the read is over: it keeps no one from writing
    new = world.open(level)
    try:
        new.check(NEW)
        new.write("new")
        new.commit()
    except world.conflicts:  # SQLite: a reader's transaction keeps others from committing
        new.rollback()
        old.rollback()
        return

    with pytest.raises((Stale, *world.conflicts)):
        old.check(OLD)

    old.rollback()
    again = world.open(level)
    with pytest.raises(Stale):
        again.check(OLD)
    again.rollback()
    assert world.open(level).read() == "new"


@every_level
def test_no_newer_one_gets_past_an_older_that_has_not_ended(world, level):
    old = world.open(level)
    old.check(OLD)
    old.write("old")

    if level == "BEGIN IMMEDIATE":
        with pytest.raises(world.conflicts):
            world.open(level)
    else:
        new = world.open(level)
        with pytest.raises(world.conflicts):  # it waits, until its lock timeout
            new.check(NEW)
        new.rollback()
    old.commit()

    new = world.open(level)
    new.check(NEW)
    assert new.read() == "old"
    new.write("new")
    new.commit()


def checked(world, lease):
    """Check a lease in a transaction of its own."""
    session = world.open(world.levels[0])
    session.check(lease)
    session.commit()


@every_world
def test_the_first_use_of_a_name_waits_too(world):
    """Two transactions that both find no row: one of them is first."""
    old, new = (world.open(world.levels[0]) for _ in range(2))
    old.check(OLD)
    with pytest.raises(world.conflicts):
        new.check(NEW)
    new.rollback()
    old.rollback()
    last = world.open(world.levels[0])
    last.check(FencingToken("orders:42", 1))  # what was rolled back was never seen
    last.commit()


@every_world
def test_a_refused_check_leaves_the_fence_as_it_was(world):
    checked(world, NEW)
    refused = world.open(world.levels[0])
    with pytest.raises(Stale):
        refused.check(OLD)
    refused.commit()
    again = world.open(world.levels[0])
    again.check(NEW)
    with pytest.raises(Stale):
        again.check(OLD)


@every_world
def test_names_of_any_length_and_characters_are_different(world):
    session = world.open(world.levels[0])
    for fence, name in enumerate(NAMES, 100):
        session.check(FencingToken(name, fence))
    session.commit()
    for fence, name in enumerate(NAMES, 100):
        session = world.open(world.levels[0])
        with pytest.raises(Stale) as refused:
            session.check(FencingToken(name, fence - 1))
        assert refused.value.seen == fence
        session.rollback()


@every_world
def test_a_connection_that_commits_each_statement_is_refused(world):
    with pytest.raises(ValueError, match="autocommit"):
        world.check(world.autocommitting(), NEW)


@every_world
def test_the_leases_of_real_locks(world, locks):
    with fencelock.Client(locks.url) as client:
        lock = client.lock("orders:42", ttl=10)
        with lock as first:
            checked(world, first)
        for older in ("orders:42", "orders:43"):  # either of them
            with client.multi(["orders:42", "orders:43"], ttl=10) as both:
                checked(world, both)
                checked(world, FencingToken(older, both.fences[older] + 1))
                late = world.open(world.levels[0])
                with pytest.raises(Stale, match=older):
                    late.check(both)
                late.rollback()

        last = world.open(world.levels[0])
        with pytest.raises(fencelock.NotHeld):
            last.check(first)  # it was released: nothing is sent
        with pytest.raises(Stale):
            last.check(FencingToken(first.name, first.fence))


# The holder that freezes is another process. It has the fence of its lease, as a worker has it that
# checks only the fence: with the lease itself, the check would end with LeaseLost before any SQL.
HOLDER = """
    import sys
    import fencelock
    from fencelock.fences import FencingToken, Stale
    from tests.integrations.fences.late_writer import write

    client = fencelock.Client(sys.argv[1])
    lock = client.lock("orders:42", ttl=1)
    assert lock.acquire()
    token = FencingToken(lock.lease.name, lock.lease.fence)
    write(*sys.argv[2:], token, "first")
    print("written", flush=True)
    sys.stdin.readline()
    try:
        write(*sys.argv[2:], token, "late")
    except Stale as refused:
        print("refused", refused.seen, flush=True)
"""


@pytest.mark.parametrize("world", ["psycopg", "pymysql", "sqlite3"], indirect=True)
def test_a_holder_that_was_frozen_is_refused_when_it_wakes_up(world, locks, request):
    name = request.node.callspec.params["world"]
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), locks.url, name, str(world.where)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with holder, fencelock.Client(locks.url) as client:
        try:
            assert holder.stdout.readline() == "written\n"
            holder.send_signal(signal.SIGSTOP)

            with client.lock("orders:42", ttl=10, timeout=20) as lease:
                session = world.open(world.levels[0])
                session.check(lease)
                assert session.read() == "first"
                session.write("second")
                session.commit()
                holder.send_signal(signal.SIGCONT)
                holder.stdin.write("\n")
                holder.stdin.flush()

                assert holder.stdout.readline() == f"refused {lease.fence}\n"
        finally:
            holder.kill()
    assert world.open(world.levels[0]).read() == "second"


def test_creating_waits_for_another_that_creates(postgres_socket):
    psycopg = pytest.importorskip("psycopg")
    guard, where = FenceGuard("created_twice"), {"host": str(postgres_socket), "user": "postgres"}
    with psycopg.connect(**where) as one, psycopg.connect(**where, autocommit=True) as eye:
        guard.create(one)

        def second():
            with psycopg.connect(**where) as other:
                guard.create(other)
                guard.check(other, NEW)

        beside = thread(second)
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        until(lambda: eye.execute(waits).fetchone()[0], "the second waits for the first")
        one.commit()
        ended(beside)
        with pytest.raises(Stale):
            guard.check(one, OLD)
        one.rollback()


def test_a_registry_of_sessions_stands_for_its_session(tmp_path):
    sqlalchemy, orm = pytest.importorskip("sqlalchemy"), pytest.importorskip("sqlalchemy.orm")
    engine, guard = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/a"), FenceGuard()
    sessions = orm.scoped_session(orm.sessionmaker(engine))
    with contextlib.closing(sessions):
        guard.create(sessions)
        guard.check(sessions, NEW)
        sessions.commit()
        with pytest.raises(Stale):
            guard.check(sessions, OLD)
    engine.dispose()


def test_a_registry_of_sessions_of_tasks_stands_for_its_session(tmp_path):
    pytest.importorskip("aiosqlite")
    aio = pytest.importorskip("sqlalchemy.ext.asyncio")

    async def main():
        engine, guard = (
            aio.create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/a"),
            AsyncFenceGuard(),
        )
        sessions = aio.async_scoped_session(aio.async_sessionmaker(engine), asyncio.current_task)
        await guard.create(sessions)
        await guard.check(sessions, NEW)
        await sessions.commit()
        with pytest.raises(Stale):
            await guard.check(sessions, OLD)
        await sessions.remove()
        await engine.dispose()

    asyncio.run(main())
