"""The recipes for job queues: real workers, one of which is killed while it has the lock."""

import asyncio
import subprocess
import sys

import pytest

import fencelock
from tests.integrations.recipes.page import ASYNC_WORK, WORK, recipes


def send(place, code):
    """Run the producer in a process of its own: a broker is configured once per process."""
    subprocess.run(
        [sys.executable, "-c", code], cwd=place.path, env=place.environment, check=True, timeout=60
    )


def killed_while_it_works(place, start, enqueue):
    """Tell the common story: a worker is killed, and its successor waits for the lease's end."""
    (place.path / "hold").touch()
    enqueue()
    first = start()
    place.wait("began", 1)
    place.kill(first)
    with fencelock.Client(place.url) as client:
        assert client.lock("import:42").locked()
    (place.path / "hold").unlink()
    enqueue()
    start()
    one, two = place.wait("began", 2)[:2]
    place.wait("ended", 1)

    assert int(two[2]) > int(one[2])  # the fence grows
    assert two[1] != one[1]


def busy_while_another_works(place, start, enqueue):
    """Two jobs for one account, two workers: one after the other, and both are done."""
    (place.path / "hold").touch()
    for _ in range(2):
        enqueue()
    for _ in range(2):
        start()
    place.wait("began", 1)
    assert len(place.lines("began")) == 1
    (place.path / "hold").unlink()
    place.wait("ended", 2)
    words = [line.split()[0] for line in (place.path / "log").read_text().splitlines()]
    assert words == ["began", "ended", "began", "ended"]


stories = pytest.mark.parametrize("story", [killed_while_it_works, busy_while_another_works])


@stories
def test_dramatiq(place, story):
    pytest.importorskip("dramatiq")
    (recipe,) = recipes("Dramatiq")
    place.put("jobs.py", WORK + recipe)

    def start():
        command = ("dramatiq", "jobs", "--processes", "1", "--threads", "1", "--skip-logging")
        return place.start(*command)

    story(place, start, lambda: send(place, "import jobs; jobs.import_account.send(42)"))


@stories
def test_rq(place, story):
    pytest.importorskip("rq")
    recipe, enqueue = recipes("RQ")
    place.put("jobs.py", WORK + recipe)
    code = (
        "import redis, rq, os; from rq import Retry; from jobs import import_account\n"
        "queue = rq.Queue(connection=redis.Redis.from_url(os.environ['FENCELOCK_URL']))\n"
    )

    def start():
        return place.start("rq", "worker", "--url", place.url, "default")

    story(place, start, lambda: send(place, code + enqueue))


@stories
def test_arq(place, story):
    """Not among the packages of the nightly tests: arq wants a redis-py older than 6."""
    arq = pytest.importorskip("arq")
    (recipe,) = recipes("arq")
    place.put("jobs.py", ASYNC_WORK + recipe)

    async def enqueue():
        pool = await arq.create_pool(arq.connections.RedisSettings.from_dsn(place.url))
        await pool.enqueue_job("import_account", 42)
        await pool.aclose()

    story(place, lambda: place.start("arq", "jobs.WorkerSettings"), lambda: asyncio.run(enqueue()))


@stories
def test_taskiq(place, story):
    pytest.importorskip("taskiq_redis")
    (recipe,) = recipes("taskiq")
    place.put("jobs.py", ASYNC_WORK + recipe)
    code = (
        "import asyncio, jobs\n"
        "async def main():\n"
        "    await jobs.broker.startup()\n"
        "    await jobs.import_account.kiq(42)\n"
        "    await jobs.broker.shutdown()\n"
        "asyncio.run(main())"
    )

    def start():
        return place.start("taskiq", "worker", "jobs:broker", "--workers", "1")

    story(place, start, lambda: send(place, code))


def test_prefect(place):
    """The task's function runs as Prefect runs it, in a process without Prefect's server."""
    pytest.importorskip("prefect")
    (recipe,) = recipes("Prefect")
    place.put("jobs.py", WORK + recipe)
    with fencelock.Client(place.url) as client:
        send(place, "import jobs; jobs.import_account.fn(42)")
        with client.lock("import:42", ttl=30), pytest.raises(subprocess.CalledProcessError):
            send(place, "import jobs; jobs.import_account.fn(42)")
    assert len(place.wait("ended", 1)) == 1
