"""_io/bounded_call.py: what a child process knows of the work of its parent."""

import os

import pytest

from fencelock._io.bounded_call import Work, WorkClaim, WorkTable, under_way, within
from fencelock._runtime.clock import now

KEY, NAME, SOON = "key", "fencelock-test", 5.0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_wait_for_work_of_a_thread_that_only_its_parent_has(monkeypatch):
    work = Work(lambda: 1, None)
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


def test_work_that_its_only_caller_left_before_it_began_is_not_done(monkeypatch):
    """Its thread comes late, and the caller may have begun the same work again."""
    table, claim, done = WorkTable(), WorkClaim(lambda: None), []
    monkeypatch.setattr(table, "_start", lambda *_: None)
    work = table.claim(KEY, lambda: Work(lambda: done.append(1), None), NAME, claim)
    table.leave(KEY, claim, NAME)
    assert table._under_way == {}
    table._run(KEY, work)
    assert done == []


def test_what_the_work_raises_the_caller_raises():
    def fails():
        raise LookupError("no such host")

    with pytest.raises(LookupError, match="no such host"):
        within(now() + SOON, KEY, fails, name=NAME)
    assert within(now() + SOON, KEY, lambda: 7, name=NAME) == 7
