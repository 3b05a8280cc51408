"""Ctrl-C and the end of the interpreter: nothing is left behind (I9, I10)."""

import re
import signal

import pytest

import fencelock
from fencelock._core.deadlines import HANDOFF_TTL_SECONDS
from fencelock._core.keys import SignalKeys
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.hold import Hold
from fencelock._core.lock.tenure import Tenure
from fencelock._io.port_blocking import BlockingPort
from tests.kinds import LONG
from tests.patience import PATIENT
from tests.threads.state import program, waiting
from tests.waiting import until

HEAD = (
    f"""
import os, signal, sys, threading, fencelock
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


def on_list(server, prefix):
    return server.command("ZCARD", SignalKeys(prefix, "e").watch[1])


def at_barrier(server, prefix):
    return int(server.command("HGET", f"{prefix}b", "count") or 0)


WAITING = {
    "lock.acquire()": waiting,
    "lock.acquire(timeout=60)": waiting,
    "lock.__enter__()": waiting,
    "client.event('e').wait()": on_list,
    "client.barrier('b', 2).wait()": at_barrier,
}


@pytest.mark.parametrize("call", WAITING)
def test_ctrl_c_ends_a_wait_and_leaves_nothing(client, server, prefix, call):
    """The process leaves line, list or barrier at once; those behind it move up."""
    with client.lock("a"):
        with program(HEAD + WAITS.format(call=call), server.url, prefix) as running:
            assert running.stdout.readline() == "asks\n"
            until(lambda: WAITING[call](server, prefix) == 1)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate()
        assert (running.returncode, out) == (0, "interrupted\n"), err
        until(lambda: WAITING[call](server, prefix) == 0)


def struck(monkeypatch, where, name, times=1):
    """Have the next calls of a method be struck by Ctrl-C."""
    known, left = getattr(where, name), iter(range(times))

    def strike(*args, **options):
        if next(left, None) is not None:
            raise KeyboardInterrupt
        return known(*args, **options)

    monkeypatch.setattr(where, name, strike)


@pytest.mark.parametrize("call", ["acquire", "__enter__"])
def test_more_ctrl_c_in_the_undo_of_a_wait_leave_nothing(client, server, prefix, monkeypatch, call):
    """Each frame undoes. As found, the client waited for ever for a call that had ended."""
    other = fencelock.Client(server.url, key_prefix=prefix)
    with other, client.lock("a"):
        struck(monkeypatch, BlockingPort, "wait")
        struck(monkeypatch, Attempt, "withdraw", times=2)
        with pytest.raises(KeyboardInterrupt):
            getattr(other.lock("a"), call)()
        until(lambda: waiting(server, prefix) == 0)
        until(lambda: not other._port.lines.cohorts)


def test_a_second_ctrl_c_in_the_undo_of_a_release_releases(client, monkeypatch):
    """As found: the lease was renewed for ever, though no code could release it."""
    lock = client.lock("a")
    assert lock.acquire()
    struck(monkeypatch, BlockingPort, "_exchange")
    struck(monkeypatch, Hold, "release_in_background")
    with pytest.raises(KeyboardInterrupt):
        lock.release()
    until(lambda: not lock.locked())
    assert client._port.renewals.holds == 0


@pytest.fixture
def rival(server, prefix):
    """Lend the same lock of another client, which gets it at the end."""
    with fencelock.Client(server.url, key_prefix=prefix) as other:
        lock = other.lock("a")
        yield lock
        assert lock.acquire(timeout=HANDOFF_TTL_SECONDS / 2)
        lock.release()


def test_a_lease_that_was_about_to_be_kept_is_given_back(client, rival, monkeypatch):
    """As found: it stayed until its ttl, as nothing knew of it any more."""
    handle, end_turn = client.lock("a", linger=0.02), Tenure._end_turn

    def interrupted(tenure, hold, length):
        end_turn(tenure, hold, length)
        raise KeyboardInterrupt

    while not client._port.hears:
        with handle:
            pass
    handle.acquire()
    monkeypatch.setattr(Tenure, "_end_turn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        handle.release()


def test_a_turn_that_is_given_to_a_waiter_while_it_gives_up_is_given_back(
    client, rival, monkeypatch
):
    """As found: a waiter read what it had been given, and was given a turn before it left."""
    first, leave = client.lock("a", cohort=LONG), Tenure.leave

    def late(line, waiter):
        monkeypatch.setattr(Tenure, "leave", leave)
        first.release()  # as the thread that holds it may do at this moment
        return leave(line, waiter)

    first.acquire()
    struck(monkeypatch, client._port, "_wait_for_bell")
    monkeypatch.setattr(Tenure, "leave", late)
    with pytest.raises(KeyboardInterrupt):
        client.lock("a", cohort=LONG).acquire()


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
