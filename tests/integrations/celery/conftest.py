"""A server, an app that sends to it, and workers as real processes."""

import gc
import importlib

import pytest

from tests.integrations.celery.fleet import Fleet, until


@pytest.fixture(scope="session")
def jobs(shared_server):
    """The module of the tasks, in this process: it only sends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOBS_BROKER", shared_server.tcp_url)
        yield importlib.import_module("tests.integrations.celery.jobs")
        gc.collect()  # results of Celery that end with the interpreter complain


@pytest.fixture
def fleet(server, tmp_path):
    made = Fleet(server, tmp_path)
    yield made
    made.close()


@pytest.fixture
def began(server):
    """Return the runs that have begun, once there are so many: (pid, thread, key, fence)."""

    def wait(count=1):
        until(lambda: server.command("LLEN", "began") >= count, f"{count} runs")
        return [line.split() for line in server.command("LRANGE", "began", 0, -1)]

    return wait


@pytest.fixture
def go(server):
    """Let a run of a key go on."""
    return lambda key, word="done": server.command("RPUSH", f"go:{key}", word)
