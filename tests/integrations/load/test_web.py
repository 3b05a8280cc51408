"""Web servers and a queue, with more requests than threads; workers are killed or replaced."""

import sys
from pathlib import Path

import pytest

from tests.integrations.load.judge import MODULES

pytestmark = pytest.mark.slow
RECYCLES = "--max-requests", "20", "--max-requests-jitter", "5"


def gunicorn(load, app, kind, *more):
    pytest.importorskip("gunicorn")
    words = ("--worker-class", kind, "--workers", "2", "--bind", f"unix:{load.web}")
    return load.start("gunicorn", f"{MODULES}.{app}", *words, *more)


def uvicorn(load, app):
    pytest.importorskip("uvicorn")
    words = ("--workers", "2", "--uds", str(load.web), "--log-level", "warning")
    return load.start("uvicorn", f"{MODULES}.{app}", *words)


def test_fastapi(load, capsys):
    pytest.importorskip("fastapi")
    uvicorn(load, "fastapi_app:app")
    with load.requests(240, "def", "async", "hold", "blocking"), load.crash():
        pass
    load.judge(capsys, processes=2)


def test_django_of_coroutines(load, capsys):
    pytest.importorskip("django")
    uvicorn(load, "django_app:asgi")
    with load.requests(160, "async", "thread", "def"), load.crash():
        pass
    load.judge(capsys, processes=2)


def test_django(load, capsys):
    pytest.importorskip("django")
    gunicorn(load, "django_app:wsgi", "gthread", "--threads", "4", *RECYCLES)
    with load.requests(160, "def", "async"):
        pass
    load.judge(capsys, processes=4)


def test_flask_whose_client_was_used_before_the_fork(load, capsys):
    pytest.importorskip("flask")
    load.place.environment["USED_BEFORE_FORK"] = "1"
    gunicorn(load, "flask_app:app", "gthread", "--threads", "4", "--preload")
    with load.requests(160, "def", "async"), load.crash():
        pass
    load.judge(capsys, processes=3)


def test_gevent(load, capsys):
    pytest.importorskip("gevent")
    pytest.importorskip("flask")
    gunicorn(load, "flask_app:app", "gevent")
    with load.requests(160, "def"), load.crash():
        pass
    load.judge(capsys, processes=2)


def test_uwsgi(load, capsys):
    """Its workers are forks of a master that has imported, and used, the client."""
    if not Path(sys.prefix, "bin", "uwsgi").exists():
        pytest.skip("uWSGI is not installed: it is built on the machine, where that has a compiler")
    load.place.environment["USED_BEFORE_FORK"] = "1"
    words = ("--master", "--processes", "3", "--enable-threads", "--max-requests", "20")
    app = ("--module", f"{MODULES}.flask_app:app", "--virtualenv", sys.prefix)
    load.start("uwsgi", "--http-socket", str(load.web), *words, *app, "--need-app")
    with load.requests(120, "def", "async"), load.crash():
        pass
    load.judge(capsys, processes=4)


def test_celery(load, capsys):
    """A queue with more jobs than slots."""
    pytest.importorskip("celery")
    words = ("--pool=prefork", "--concurrency=4", "--max-tasks-per-child=12")
    alone = ("--without-gossip", "--without-mingle")
    with load.crash():
        load.send("celery_app", "job.delay(name, number)", 120)
        load.start("celery", "-A", f"{MODULES}.celery_app", "worker", *words, *alone)
    load.all_done()
    load.judge(capsys, processes=6)
