"""Ctrl-C and the end of the interpreter: nothing is left behind (I9, I10)."""

import re
import signal

import pytest

from fencelock._core.keys import LockKeys
from tests.patience import PATIENT
from tests.threads.state import program, waiting
from tests.waiting import until

HEAD = (
    f"""
import contextlib, os, random, signal, sys, threading, time, fencelock
{PATIENT}"""
    """
url, prefix = sys.argv[1:3]
client = fencelock.Client(url, key_prefix=prefix)
lock = client.lock("a", ttl=20)
"""
)

WAITS = """
print("asks", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    client.close()
"""

# A profiler's timer, or children that end: signals that are taken note of, and nothing else.
OFTEN = """
taken = 0

def take(*_):
    global taken
    taken += 1
    if taken > 500:  # ten seconds
        os._exit(3)

signal.signal(signal.SIGALRM, take)
client.lock("b").locked()  # connects
{first}
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
try:
    print({call}, flush=True)
except fencelock.FencelockError as error:
    print(type(error).__name__, flush=True)
os._exit(0)
"""

BODY = """
try:
    with lock:
        print("inside", flush=True)
        while True:  # a signal just before pause() would be slept through
            threading.Event().wait(0.05)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    client.close()
"""

# Interrupts at random instants: when one has struck, the lock must be free, and the line empty.
# One that strikes in __enter__ or __exit__ itself, where Python has no way to put it off, may leave
# the handle holding: then the handle knows, and can release. What nobody knows of must not be.
STORM = """
observer = fencelock.Client(url, key_prefix=prefix)
chance, armed = random.Random(int(sys.argv[3])), False

def strike(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, strike)
struck = left = known = 0
other = block(observer)
watched = make(observer)
handle = make(client, timeout=0.002 if contended else None)
for turn in range(int(sys.argv[4])):
    if contended:
        other.acquire()
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00002, 0.0012))
        while armed:
            try:
                with handle:
                    pass
            except fencelock.AcquireTimeout:
                pass
    except KeyboardInterrupt:
        struck += 1
    armed = False
    if contended:
        other.release()
    if handle.lease is not None and not handle.lease.lost:
        known += 1
        with contextlib.suppress(fencelock.LeaseLost):  # the release that was interrupted ran
            handle.release()
    # What was interrupted may run after the first look, and its undo after the second.
    deadline, free = time.monotonic() + 8, 0
    while free < 3 and time.monotonic() < deadline:
        free = 0 if watched.locked() else free + 1
    if free < 3 or handle.lease is not None and not handle.lease.lost:
        left += 1
        os.write(2, f"turn {turn}: left {handle!r}\\n".encode())
        break
print(struck, left, known, flush=True)
os._exit(0)
"""

EXITS = {
    "while holding": "lock.acquire()",
    "while a daemon waits": """
lock.acquire()
threading.Thread(target=client.lock("a").acquire, daemon=True).start()
while not len(client._port.lines):
    pass
""",
    "in the body of a with": "lock.__enter__(); sys.exit(0)",
    "with many leases": "kept = [client.lock(str(n), ttl=20) for n in range(50)]\n"
    "for each in kept: each.acquire()",
}


@pytest.mark.parametrize("call", ["lock.acquire()", "lock.acquire(timeout=60)", "lock.__enter__()"])
def test_ctrl_c_ends_a_wait_and_leaves_nothing(client, server, prefix, call):
    """The process leaves the line at once; those behind it move up."""
    with client.lock("a"):
        with program(HEAD + WAITS.format(call=call), server.url, prefix) as running:
            assert running.stdout.readline() == "asks\n"
            until(lambda: waiting(server, prefix) == 1)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate()
        assert (running.returncode, out) == (0, "interrupted\n"), err
        until(lambda: waiting(server, prefix) == 0)


FREEZE = "os.kill(int(sys.argv[3]), signal.SIGSTOP)"
PUT_OFF = {
    "in line": ("", "lock.acquire(timeout=0.5)", "False"),
    "event": ("", "client.event('e').wait(0.5)", "False"),
    "frozen server": (FREEZE, "client.lock('b').acquire(timeout=0.5)", "OutcomeUnknown"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("case", PUT_OFF)
def test_signals_that_come_often_put_off_no_timeout(client, server, prefix, case):
    """I13: Python begins a receive anew after each signal, with the whole of its time."""
    first, call, outcome = PUT_OFF[case]
    text = HEAD + OFTEN.format(call=call, first=first)
    with client.lock("a"):
        with program(text, server.url, prefix, str(server.pid)) as running:
            try:
                out, err = running.communicate()
            finally:
                server.resume()
        assert (running.returncode, out) == (0, f"{outcome}\n"), err


def test_ctrl_c_in_a_body_releases(server, prefix):
    """As any exception that leaves a ``with``."""
    with program(HEAD + BODY, server.url, prefix) as running:
        assert running.stdout.readline() == "inside\n"
        assert server.command("EXISTS", f"{prefix}a") == 1
        running.send_signal(signal.SIGINT)
        out, err = running.communicate()
    assert (running.returncode, out) == (0, "interrupted\n"), err
    assert server.command("EXISTS", f"{prefix}a") == 0


MADE = {
    "lock": 'client.lock("a", ttl=20, **options)',
    "semaphore": 'client.semaphore("a", 1, ttl=20, **options)',
    "write": 'client.rwlock("a", write_ttl=20, **options).write',
    "multi": 'client.multi(["a", "0"], ttl=20, **options)',
}
# What they wait for, where that is not the same.
BLOCKED = {"multi": 'client.lock("a", ttl=20, **options)'}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("contended", [False, True], ids=["alone", "in line"])
def test_ctrl_c_at_any_instant_leaves_nothing(server, prefix, contended, kind):
    """Interrupts at random instants of ``with``: no lease that its handle does not know of."""
    made = f"def make(client, **options): return {MADE[kind]}\n"
    block = f"def block(client, **options): return {BLOCKED.get(kind, MADE[kind])}\n"
    text = HEAD + made + block + f"contended = {contended}\n" + STORM
    with program(text, server.url, prefix, 7, 250) as running:
        out, err = running.communicate()
    assert running.returncode == 0, err
    struck, left, known = map(int, out.split())
    assert left == 0, err
    assert struck > 150
    assert known < struck / 4, "the windows are wider than Python's own"
    until(lambda: server.command("ZCARD", LockKeys(prefix, "a").grant[2]) == 0)


@pytest.mark.parametrize("story", EXITS.values(), ids=EXITS)
def test_the_interpreter_may_end_while_holding(server, prefix, story):
    """It ends at once, and names what it held; what it held ends by its ttl."""
    with program(HEAD + story, server.url, prefix) as running:
        out, err = running.communicate()
    assert (running.returncode, out) == (0, ""), err
    assert re.fullmatch(r"the process ends while it holds \d+ lease\(s\), which .*\n", err)
    assert re.search(r": '(a|0)'", err)
    held = [key for key in server.command("KEYS", f"{prefix}*") if "~" not in key]
    assert held
    assert all(0 < server.command("PTTL", key) <= 20_000 for key in held)
