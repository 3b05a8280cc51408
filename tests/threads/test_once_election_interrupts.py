"""Ctrl-C at random instants of ``once`` and of elections: what it leaves is cleaned up (I9)."""

import pytest

from tests.threads.state import program

STORM = """
import contextlib, os, random, signal, sys, time, fencelock
url, prefix, seed = *sys.argv[1:3], int(sys.argv[3])
client = fencelock.Client(url, key_prefix=prefix)
observer = fencelock.Client(url, key_prefix=prefix)
chance, armed = random.Random(seed), False

def strike(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

def runs_once(name, _):
    client.once(name, within=60).run(lambda: None)

def leads(name, election):
    with election:
        pass

def hands_over(name, election):
    with election, contextlib.suppress(LookupError):
        election.hand_over("nobody")

signal.signal(signal.SIGALRM, strike)
struck = left = 0
for number in range(300):
    names, election = [f"{number}"], client.election(f"{number}")
    turn = chance.choice([runs_once, leads, hands_over])
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00002, 0.0015))
        while armed:
            if turn is runs_once:
                names.append(f"{number}.{len(names)}")
            turn(names[-1], election)
    except (KeyboardInterrupt, RuntimeError):  # threading's own start() turns one into the other
        struck += 1
    armed = False
    if election.lease is not None:
        with contextlib.suppress(fencelock.FencelockError):
            election.resign()
    locks = [observer.lock(name) for name in names]
    deadline, free = time.monotonic() + 8, 0
    while free < 3 and time.monotonic() < deadline:  # as STORM looks
        free = 0 if any(lock.locked() for lock in locks) else free + 1
    left += free < 3
    if left > 3:
        break
print(struck, left, flush=True)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_strike_keeps_clean_ups_from_running(server, prefix, seed):
    """A strike between the entry of ``with`` and its body leaves a lease: that is Python's own."""
    with program(STORM, server.url, prefix, seed) as running:
        out, err = running.communicate()
    assert running.returncode == 0, err
    struck, left = map(int, out.split())
    assert struck > 150
    assert left <= 3, f"{left} of {struck} strikes left a lease"
