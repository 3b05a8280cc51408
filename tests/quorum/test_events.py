"""A lease of a quorum is one lease for hooks, whatever its nodes do."""

import contextlib

import pytest

import fencelock
from fencelock.instrumentation import set_hooks
from tests.servers import Server
from tests.waiting import until

pytestmark = pytest.mark.nightly


@pytest.fixture
def seen():
    events = []
    set_hooks([events.append])
    yield events
    set_hooks([])


def kinds(seen, *wanted):
    return [each.kind for each in tuple(seen) if each.kind in wanted]


def test_a_renewal_is_reported_once_for_all_nodes(seen):
    with Server() as a, Server() as b, Server() as c:
        with fencelock.Client([a.url, b.url, c.url]) as client:
            lock = client.lock("a", ttl=6)
            assert lock.acquire()
            until(lambda: "renewed" in kinds(seen, "renewed"))
            held = next(each.held for each in seen if each.kind == "renewed")
            assert len(kinds(seen, "renewed")) <= held / 1 + 2
            lock.release()
        assert kinds(seen, "granted", "released", "lost") == ["granted", "released"]


def test_one_node_that_fails_is_no_news_and_a_majority_is(seen):
    with contextlib.ExitStack() as stack:
        a, b, c = (stack.enter_context(Server()) for _ in range(3))
        sources = [a.url, b.url, c.url]
        client = stack.enter_context(fencelock.Client(sources, server_timeout=0.3))
        lock = client.lock("a", ttl=6)
        assert lock.acquire()
        c.kill()
        until(lambda: len(kinds(seen, "renewed")) > 3, 20)
        assert kinds(seen, "renewal_failed", "lost") == []
        b.kill()
        until(lambda: "lost" in kinds(seen, "lost"), seconds=20)
        assert "renewal_failed" in kinds(seen, "renewal_failed")
        lost = next(each for each in seen if each.kind == "lost")
        assert lost.error is not None
        assert "its last renewal failed" in lost.detail
        with pytest.raises(fencelock.LeaseLost):
            lock.release()
