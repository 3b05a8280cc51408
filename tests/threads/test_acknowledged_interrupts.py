"""Ctrl-C while replicas acknowledge: nothing is left behind (I9)."""

import pytest

from fencelock._core.keys import LockKeys
from tests.replication import replicated
from tests.threads.state import program
from tests.threads.test_interrupts import HEAD, MADE, STORM
from tests.waiting import until

COUNTING = HEAD.replace("key_prefix=prefix)", "key_prefix=prefix, replicas=1)")


@pytest.fixture(scope="module")
def master():
    with replicated() as servers:
        yield servers[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lock", "semaphore"])
@pytest.mark.parametrize("contended", [False, True], ids=["alone", "in line"])
def test_ctrl_c_at_any_instant_leaves_nothing(master, prefix, contended, kind):
    made = f"def make(client, **options): return {MADE[kind]}\nblock = make\n"
    text = COUNTING + made + f"contended = {contended}\n" + STORM
    with program(text, master.url, prefix, 7, 150) as running:
        out, err = running.communicate()
    assert running.returncode == 0, err
    struck, left, known = map(int, out.split())
    assert left == 0, err
    assert struck > 90
    assert known < struck / 4, "the windows are wider than Python's own"
    until(lambda: master.command("ZCARD", LockKeys(prefix, "a").grant[2]) == 0)
