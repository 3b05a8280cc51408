"""_io/bounded_call_blocking.py: what a child process knows of the work of its parent."""

import os

import pytest

from fencelock._io.bounded_call_blocking import Work, under_way, within
from fencelock._runtime.clock import now

KEY, NAME, SOON = "key", "fencelock-test", 5.0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_wait_for_work_of_a_thread_that_only_its_parent_has(monkeypatch):
    work = Work(lambda: 1, None, None)
    work.begun = True
    monkeypatch.setitem(under_way._under_way, KEY, [work])
    pid = os.fork()
    if pid == 0:
        status = 2
        try:
            status = within(now() + SOON, KEY, lambda: 0, name=NAME)
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
