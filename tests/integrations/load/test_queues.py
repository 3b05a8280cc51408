"""Job queues with more jobs than threads, whose workers are killed or replaced meanwhile."""

import pytest

from tests.integrations.load.judge import MODULES

pytestmark = pytest.mark.slow


def test_celery(load, capsys):
    pytest.importorskip("celery")
    words = ("--pool=prefork", "--concurrency=4", "--max-tasks-per-child=12")
    alone = ("--without-gossip", "--without-mingle")
    with load.crash():
        load.send("celery_app", "job.delay(name, number)", 120)
        load.start("celery", "-A", f"{MODULES}.celery_app", "worker", *words, *alone)
    load.all_done()
    load.judge(capsys, processes=6)


def test_dramatiq(load, capsys):
    pytest.importorskip("dramatiq")
    command = ("dramatiq", f"{MODULES}.dramatiq_app", "--processes", "1", "--threads", "6")
    load.send("dramatiq_app", "job.send(name, number)", 120)
    with load.crash(load.start(*command)):
        load.until(load.done)
    load.start(*command)
    load.all_done()
    load.judge(capsys, processes=2)


def test_rq(load, capsys):
    pytest.importorskip("rq")
    with load.crash():
        retried = "retry=rq.Retry(max=3)"
        load.send("rq_app", f"queue.enqueue(job, name, number, {retried})", 50)
        for _ in range(4):
            load.start("rq", "worker", "--url", load.place.url, "default")
    load.all_done()
    load.judge(capsys, processes=50)
