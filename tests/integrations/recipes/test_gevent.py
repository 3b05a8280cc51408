"""Greenlets, in a process that imports fencelock before it is patched, as isort orders imports."""

import subprocess
import sys

import pytest

pytest.importorskip("gevent")

STORY = """
import sys
from fencelock import Client, FencelockError

url, used = sys.argv[1:]
early = Client(url)
if used == "used":
    early.lock("early").acquire()
handle = early.rlock("a")
from gevent import monkey; monkey.patch_all()
import gevent

client = Client(url)
kinds = {
    "a lock": client.lock("b"),
    "an rlock": client.rlock("c"),
    "a write side": client.rwlock("d").write,
    "a permit": client.semaphore("e", 1),
}
if used == "made":
    kinds["a handle made before"] = handle
else:
    try:
        handle.acquire()
    except FencelockError as error:
        print("refused:", type(error).__name__)
for what, lock in kinds.items():
    inside, most = [], []

    def turn():
        for _ in range(3):
            with lock:
                inside.append(1)
                most.append(len(inside))
                gevent.sleep(0.002)
                inside.pop()

    tasks = [gevent.spawn(turn) for _ in range(8)]
    gevent.joinall(tasks, timeout=20, raise_error=True)
    print(what, len(most), max(most))

Client(url).lock("f", ttl=60).acquire()
taken, told, granted = [], [], []

def take(number):
    for _ in range(20):
        with client.lock(f"g{number}"):
            taken.append(number)

def give_up(number):
    while len(told) < 40:
        with gevent.Timeout(0.002 * number + 0.002, False):
            client.lock("f", cohort=None).acquire()
            granted.append(number)

def tell(lease):
    gevent.sleep(0.002)
    told.append(lease)

def lose(number):
    for _ in range(5):
        client.lock(f"h{number}", ttl=0.1, renew=False, on_lost=tell).acquire()
        gevent.sleep(0.2)

tasks = [gevent.spawn(each, number) for each in (take, give_up, lose) for number in range(8)]
gevent.joinall(tasks, timeout=20, raise_error=True)
print("beside others,", len(taken), "turns,", len(told), "told,", len(granted), "granted")
"""


@pytest.mark.parametrize("used", ["made", "used"])
def test_greenlets_take_turns_though_the_process_was_patched_late(server, used):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STORY, server.tcp_url, used],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said = done.stdout.splitlines()
    if used == "used":
        assert said.pop(0) == "refused: ClientClosed"
        assert "before gevent or eventlet patched this process" in done.stderr
    assert said.pop() == "beside others, 160 turns, 40 told, 0 granted"
    assert [line.split()[-2:] for line in said] == [["24", "1"]] * len(said)
    assert len(said) == (5 if used == "made" else 4)
