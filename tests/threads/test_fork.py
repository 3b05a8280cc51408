"""After a fork parent and child each do the right thing; run in programs of their own."""

import contextlib
import os
import sys
from importlib.util import find_spec

import pytest

from fencelock._core.keys import LockKeys
from tests.patience import PATIENT
from tests.threads.state import connections, program
from tests.waiting import until

HEAD = (
    f"""
import os, sys
if sys.argv[3] != "Python":
    os.register_at_fork = lambda **_: None  # a fork in C runs no handler; threading has one, too
import mmap, threading, time, warnings
if sys.argv[3].endswith("emptied"):
    del mmap.MAP_PRIVATE
import fencelock
from fencelock import LeaseLost, NotHeld
{PATIENT}"""
    """
warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
url, prefix, kind = sys.argv[1:]

client = fencelock.Client(url, key_prefix=prefix)

def raises(kind, call, **how):
    try:
        call(**how)
    except kind as error:
        return error
    raise AssertionError(f"{call} did not raise {kind}")

def until(condition):
    deadline = time.monotonic() + 8
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.002)

def in_child(work, *, leave=os._exit):
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        assert status == 0, f"the child ended with {status}"
        return
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    leave(code)
"""
)

RLOCK = """
lock = client.rlock("a")
lock.acquire()
lock.acquire()

def child():
    assert lock.acquire(timeout=0.1) is False
    for _ in range(2):
        raises((LeaseLost, NotHeld), lock.release)
    assert lock.acquire(blocking=False) is False

in_child(child)
assert [lock.release(), lock.release()] == [1, 0]
in_child(lambda: lock.acquire() and lock.release())
"""

NORMAL_EXIT = """
lock, waiter = (client.lock("a", ttl=20, cohort=None) for _ in range(2))
lock.acquire()
granted = threading.Event()

def wait():
    with waiter:
        granted.set()

thread = threading.Thread(target=wait)
thread.start()
print("waits", flush=True)
sys.stdin.readline()
pid = os.fork()
if pid == 0:
    with client.lock("b"):
        pass
    client.close()
    sys.exit(0)  # the whole interpreter ends in an orderly way
assert os.waitpid(pid, 0)[1] == 0
assert not granted.is_set()
lock.release()
assert granted.wait(8)
thread.join()
"""

BUSY_THREADS = """
stop, errors, turns = threading.Event(), [], []

def work(number):
    try:
        while not stop.is_set():
            with client.lock(f"{number % 2}"):
                turns.append(number)
            client.lock("held").acquire(timeout=0.001)
    except BaseException as error:
        errors.append(error)

def child():
    with client.lock("0", timeout=8), client.lock("mine", timeout=8):
        pass
    client.close()

with client.lock("held", ttl=20):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(turns) > 20)
    for number in range(12):
        in_child(child)
    seen = len(turns)
    until(lambda: len(turns) > seen + 20)
    stop.set()
    for thread in threads:
        thread.join()
assert errors == [], errors
"""

CLOSED = """
client = fencelock.Client(url, key_prefix=prefix, history=fencelock.History(threshold=0))
lock = client.lock("a")
lock.acquire()
in_child(client.close)
with client.lock("b"):
    pass
assert lock.owned()
lock.release()
client.close()
"""

GRANDCHILD = """
with client.lock("a"):
    def child():
        with client.lock("b") as mine:
            def grandchild():
                assert mine.lost
                assert client.lock("b").acquire(blocking=False) is False
                with client.lock("c"):
                    pass
            in_child(grandchild)
            mine.check()
    in_child(child)
"""

SHARES = """
semaphore, sides = client.semaphore("s", 2), client.rwlock("rw")
semaphore.acquire()
sides.read.acquire()

def child():
    raises(NotHeld, semaphore.release)
    assert semaphore.available() == 1
    assert not sides.read.owned()
    raises((LeaseLost, NotHeld), sides.read.release)
    assert sides.write.acquire(timeout=0.1) is False  # the parent reads, and this thread does not
    with sides.read, semaphore:
        assert semaphore.available() == 0

in_child(child)
in_child(client.close)
assert semaphore.available() == 1
assert sides.read.owned()
semaphore.release()
sides.read.release()
"""

SHARES_NO_PIPE = """
lock = client.lock("a", ttl=20)
lock.acquire()
thread = client._port._renewal_thread
until(lambda: thread._pipe)
numbers = [end.fileno() for end in thread._pipe]

def child():
    lock.locked()  # Python does not tell of a fork in C
    for number in numbers:
        raises(OSError, lambda: os.fstat(number))

in_child(child)
for number in numbers:
    os.fstat(number)
lock.release()
"""

BODIES = """
from contextlib import ExitStack

makes = {
    "lock": lambda: client.lock("a"),
    "rlock": lambda: client.rlock("a"),
    "semaphore": lambda: client.semaphore("s", 2),
    "permits": lambda: client.semaphore("s", 2).permits(2),
    "read": lambda: client.rwlock("rw").read,
    "write": lambda: client.rwlock("rw").write,
    "election": lambda: client.election("e"),
    "multi": lambda: client.multi(["a", "b"]),
    "multi of one": lambda: client.multi(["a"]),
    "multi of handles": lambda: client.multi([client.lock("a"), client.semaphore("s", 2)]),
}

def suspended(handle):
    with handle as lease:
        yield lease

def leaves(handle):
    try:
        with ExitStack() as stack:
            stack.push(handle)
            raise KeyError
    except KeyError:
        pass

def held(lease):
    lease.renew()  # the server still has it
    lease.check()

for kind, make in makes.items():
    handle = make()
    with handle as lease:
        in_child(lambda: leaves(handle))
        if hasattr(handle, "release"):
            in_child(lambda: raises((LeaseLost, NotHeld), handle.release))
        held(lease)
    generator = suspended(make())
    lease = next(generator)

    def drop():
        global generator
        del generator

    in_child(drop)
    held(lease)
    generator.close()
    handle = make()
    if hasattr(handle, "acquire"):
        assert handle.acquire(), kind
        in_child(lambda: raises((LeaseLost, NotHeld), handle.release))
        held(handle.lease)
        handle.release()
"""

LEAVES = """
from contextlib import ExitStack
import redis
from fencelock.compat import redis_py

theirs = redis_py.Lock(redis.Redis.from_url(url), prefix + "c", timeout=20)
owned, once = client.rlock("a", owner="job"), client.once("o", within=9, lease="lease")
refusals = LeaseLost, NotHeld, redis.exceptions.LockNotOwnedError

def still(lease):
    lease.renew()  # the server still has it
    lease.check()

def forks(error):
    pid = os.fork()
    if pid == 0 and error is not None:
        raise error
    return pid and os.waitpid(pid, 0)[1] == 0

def with_statements(error):
    with theirs, owned as lease:
        if forks(error):
            still(lease)
            assert theirs.owned()

def a_stack(error):
    with ExitStack() as stack:
        stack.enter_context(theirs)
        lease = stack.enter_context(owned)
        if forks(error):
            still(lease)
            assert theirs.owned()

def a_run(error):
    def body(lease):
        if forks(error):
            still(lease)
    once.run(body)
    once.forget()

parent = os.getpid()
for leaves in (with_statements, a_stack, a_run):
    for error in (None, KeyError(), SystemExit()):
        try:
            leaves(error)
        except (*refusals, KeyError, SystemExit) as trouble:
            if os.getpid() == parent:
                raise
            os._exit(error is None and not isinstance(trouble, refusals))
        assert os.getpid() == parent, "nothing was refused"
assert owned.acquire()
in_child(lambda: owned.release() and 1 / 0)  # the owner's id travelled there
raises(LeaseLost, owned.release)
"""

IN_A_HANDLER = """
import signal

other = fencelock.Client(url, key_prefix=prefix)
holder, waiter = other.lock("a"), client.lock("a", cohort=None)
holder.acquire()
ended = []

def handler(*_):
    pid = os.fork()
    if pid == 0:
        raise SystemExit  # out of its parent's acquire
    ended.append(os.waitpid(pid, 0)[1])

def look():
    until(lambda: len(client._port.lines))
    signal.raise_signal(signal.SIGALRM)
    until(lambda: ended)
    waiting.append(other.status("a").waiting)
    holder.release()

waiting = []
signal.signal(signal.SIGALRM, handler)
thread = threading.Thread(target=look)
thread.start()
parent = os.getpid()
try:
    assert waiter.acquire(timeout=8)
except SystemExit:
    os._exit(os.getpid() == parent)
thread.join()
assert (ended, waiting) == ([0], [1])
waiter.release()
"""

CAMPAIGNS = """
leader, candidate = (client.election("e", candidate=name) for name in ("first", "second"))
assert leader.campaign()
thread = threading.Thread(target=candidate.campaign)
thread.start()
until(leader.candidates)
in_child(lambda: candidate.campaign(timeout=0.1))  # the parent's campaign is not the child's
leader.resign()
thread.join()
candidate.resign()
"""

FIRST_ACTS = """
import asyncio

kept = client.lock("kept", linger=0.5)
lock, fixed = client.lock("a", ttl=20), client.lock("b", ttl=20, renew=False)
rlock, permits = client.rlock("r"), client.semaphore("s", 1)
side, many = client.rwlock("rw").write, client.multi(["m", "n"])
held = lock, fixed, rlock, permits, side, many
for each in held:
    assert each.acquire()
leases = [each.lease for each in held]
channel = client._port.client_channel
loop_client = fencelock.AsyncClient(url, key_prefix=prefix)
asyncio.run(loop_client.lock("c").locked())

async def other_face():
    async with loop_client.lock("c", timeout=8):
        assert await loop_client.lock("a").acquire(timeout=0.1) is False

def other_name():
    with client.lock("c", timeout=8) as lease:
        assert lease.fence > leases[0].fence

def enters_again():
    assert rlock.acquire(timeout=0.1) is False

acts = [
    lambda: [raises((LeaseLost, NotHeld), each.release) for each in held],
    lambda: all(each.lost for each in leases) or 1 / 0,
    lambda: {raises(LeaseLost, each.check).reason for each in leases} == {"forked"} or 1 / 0,
    lambda: any(each.remaining() for each in leases) and 1 / 0,
    lambda: any(each.lease for each in held) and 1 / 0,
    lambda: [raises(LeaseLost, each.renew) for each in leases],
    lambda: client.status("a").held or 1 / 0,
    lambda: lock.locked() or 1 / 0,
    lambda: lock.owned() and 1 / 0,
    lambda: asyncio.run(other_face()),
    other_name,
    enters_again,
    lambda: lock.acquire(blocking=False) and 1 / 0,
    lambda: permits.acquire(timeout=0.1) and 1 / 0,
    lambda: side.acquire(timeout=0.1) and 1 / 0,
    lambda: many.acquire(timeout=0.1) and 1 / 0,
    lambda: kept.acquire(timeout=8) or 1 / 0,  # recalled from the parent
    client.close,
    fencelock.shutdown,
    fencelock._io.process_ports._leave,
    lambda: fencelock.Client(url, key_prefix=prefix).lock("a").acquire(blocking=False) and 1 / 0,
]
for act in acts:
    def child():
        act()
        assert client._port.client_channel != channel
        assert all(each.lost for each in leases)

    with kept:
        pass
    in_child(child)
    for each in leases:
        each.check()
        each.renew()
for each in held:
    each.release()
with client.lock("renewed", ttl=20) as lease:  # by the parent's own thread, as ever
    end = lease.deadline
    until(lambda: lease.deadline > end)
client.close()
"""

STORIES = {
    "whatever a child does first": FIRST_ACTS,
    "a child leaves a body of its parent": BODIES,
    "a child leaves a body of an owner, of another library's, or of a run": LEAVES,
    "a child leaves its parent's acquire": IN_A_HANDLER,
    "a child of a candidate campaigns": CAMPAIGNS,
    "a child holds no permits and no side of its parent": SHARES,
    "a child closes its parent's descriptors": SHARES_NO_PIPE,
    "a child that closes its client leaves the parent's": CLOSED,
    "a child enters no rlock of its parent": RLOCK,
    "other threads are at work": BUSY_THREADS,
    "a child of a child": GRANDCHILD,
}


def forks():
    """Yield each story with each kind of fork; daily in Python and in C by turns."""
    for turn, (name, story) in enumerate(STORIES.items()):
        for number, kind in enumerate(("Python", "C", "C, and no page is emptied")):
            later = pytest.mark.nightly if number > 1 else pytest.mark.slow
            marks = () if number == turn % 2 else later
            yield pytest.param(story, kind, marks=marks, id=f"{name}-{kind}")


@pytest.mark.parametrize(("story", "kind"), list(forks()))
def test_fork(server, prefix, story, kind):
    """Parent and child tell nothing wrong, and at the end nothing is left (I14).

    A fork in C, as uWSGI makes it, runs none of Python's handlers. Without the interpreter's own
    part of ``os.fork`` a child would wait for ever for a thread that just asked for the GIL.
    """
    if story is BUSY_THREADS and not getattr(sys, "_is_gil_enabled", lambda: True)():
        pytest.skip("without the GIL Python's own locks may be taken in a child for ever")
    with program(HEAD + story, server.url, prefix, kind) as running:
        out, err = running.communicate()
    assert running.returncode == 0, out + err
    left = [key for key in server.command("KEYS", f"{prefix}*") if "~" not in key]
    assert left == []
    assert server.command("XLEN", f"{prefix}~history") == (2 if story is CLOSED else 0)


# Two of these are one snapshot of a process that is restored twice, which no program can tell: what
# the system draws is the same until then.
SNAPSHOT = """
import asyncio, hashlib, itertools, os, sys

usual, drawn, restored = os.urandom, itertools.count(), False

def urandom(size):
    return usual(size) if restored else hashlib.shake_128(b"%d" % next(drawn)).digest(size)

os.urandom = urandom
import fencelock
from fencelock.compat import redisson

url, prefix = sys.argv[1:]
client = fencelock.Client(url, key_prefix=prefix)
tasks = fencelock.AsyncClient(url, key_prefix=prefix)
handles = {
    "lock": client.lock("a"),
    "fixed": client.lock("b", renew=False),
    "rlock": client.rlock("r"),
    "permits": client.semaphore("s", 1),
    "write": client.rwlock("rw").write,
    "multi": client.multi(["m", "n"]),
    "redisson": redisson.Lock(client, prefix + "red"),
}
for each in handles.values():
    with each:
        pass

async def use():
    return await tasks.lock("t").acquire(blocking=False)

with asyncio.Runner() as runner:
    runner.run(tasks.lock("u").acquire())
    print("snapshot", flush=True)
    sys.stdin.readline()
    restored = True
    print(*[kind for kind, each in handles.items() if each.acquire(blocking=False)], end=" ")
    print("tasks" if runner.run(use()) else "", flush=True)
    sys.stdin.readline()
    os._exit(0)
"""


def test_a_snapshot_that_is_restored_twice_repeats_no_id(server, prefix):
    """Its copies exclude each other from then on: each id is drawn when it is needed (I14)."""
    with contextlib.ExitStack() as copies:
        started, taken = [], []
        for own in ("u", "v"):  # one after the other: until then, both send the same ids
            text = SNAPSHOT.replace('"u"', f'"{own}"')
            each = copies.enter_context(program(text, server.url, prefix))
            assert each.stdout.readline() == "snapshot\n", each.stderr.read()
            started.append(each)
        for each in started:
            each.stdin.write("\n")
            each.stdin.flush()
            taken.append(each.stdout.readline().split())
    assert taken == [
        ["lock", "fixed", "rlock", "permits", "write", "multi", "redisson", "tasks"],
        [],
    ]
    server.command("FLUSHDB")  # what they hold


def test_a_child_that_ends_disturbs_no_connection_of_the_parent(server, prefix):
    """A waiter of the parent is still in line, and is granted on the same connection."""
    with program(HEAD + NORMAL_EXIT, server.url, prefix, "Python") as running:
        assert running.stdout.readline() == "waits\n"
        line = LockKeys(prefix, "a").grant[2]
        while server.command("ZCARD", line) == 0:
            assert running.poll() is None
        entry = server.command("ZRANGE", line, 0, 0)[0]
        out, err = running.communicate("go\n")
    assert running.returncode == 0, out + err
    assert "Traceback" not in err
    record = server.command("GET", LockKeys(prefix, "a").grant[1])
    assert record.split()[1] == entry.split()[1]


# A child that lives on: whatever its parent had open, it must not keep.
SPAWNS = """
import signal

def spawn():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid
"""
WAITS = {
    "threads": """
for name in ("a", "b"):
    threading.Thread(target=client.lock(name).acquire, daemon=True).start()
until(lambda: len(client._port.lines) == 2)
""",
    "a lease that is held": """
lock = client.lock("c")
lock.acquire()
until(lambda: client._port._renewal_thread._ear is not None)
""",
}
ALONE = """
print(spawn(), flush=True)
sys.stdin.readline()
"""
TASKS = """
import asyncio, {module}

async def main():
    client = fencelock.AsyncClient(url, key_prefix=prefix)
    tasks = [asyncio.create_task(client.lock(name).acquire()) for name in ("a", "b")]
    while len(client._port().lines) < 2:
        await asyncio.sleep(0)
    print(spawn(), flush=True)
    await asyncio.gather(*tasks)

with asyncio.Runner(loop_factory={module}.new_event_loop) as runner:
    runner.run(main())
"""
FACES = {name: story + ALONE for name, story in WAITS.items()} | {
    module: TASKS.format(module=module) for module in ("asyncio", "uvloop") if find_spec(module)
}


def names(server):
    """Return what the server calls each of fencelock's connections, for ever."""
    return {line.partition(" ")[0] for line in connections(server)}


@pytest.mark.parametrize("story", FACES.values(), ids=FACES)
def test_a_child_does_not_hide_its_parents_death(client, server, prefix, story):
    """I7: its connections end with it, so a dead waiter is skipped at once."""
    with client.multi(["a", "b"]):
        until(lambda: client._port._renewal_thread._ear is not None, "all of ours are open")
        ours = names(server)
        with program(HEAD + SPAWNS + story, server.url, prefix, "Python") as running:
            child = int(running.stdout.readline())
            theirs = names(server) - ours
            running.kill()
            running.wait()
            os.kill(child, 0)
            mine = client.lock("a")
            until(lambda: not theirs & names(server), "its connections are gone")
    assert mine.acquire(timeout=8)
    mine.release()


# What the child of a process with an embedded server has open of it.
EMBEDDED = """
import os, sys, threading
from fencelock.embedded import liveness_lock as alive
from fencelock.embedded import wire

path = sys.argv[1]
opened, go = threading.Event(), threading.Event()

def look():
    import fcntl
    usual = fcntl.flock
    def flock(fd, how):
        usual(fd, how)
        opened.set()
        go.wait()
    fcntl.flock = flock
    alive.held(path)

open(path, "w").close()
threading.Thread(target=look, daemon=True).start()
opened.wait()
pid = os.fork()
if pid == 0:
    left = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")[:-1]]
    os._exit(path in left)
print(os.waitpid(pid, 0)[1], flush=True)
go.set()
"""


def test_a_child_does_not_look_like_an_embedded_server(tmp_path):
    """Its parent was looking whether one lives: that takes the server's own lock for a moment."""
    with program(EMBEDDED, tmp_path / "alive") as running:
        out, err = running.communicate()
    assert (out, err) == ("0\n", "")
