"""Web servers with more requests than threads, whose workers are killed or replaced meanwhile."""

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


def test_flask(load, capsys):
    pytest.importorskip("flask")
    gunicorn(load, "flask_app:app", "gthread", "--threads", "4", *RECYCLES)
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
