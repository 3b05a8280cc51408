"""The recipes for what runs all the time: one process leads, and another one when it is killed."""

import functools
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import fencelock
from tests import waiting
from tests.integrations.recipes.page import SHUT_DOWN, WORK, recipes

until = functools.partial(waiting.until, seconds=40, tick=0.02)
HOLDS = """
import threading
import fencelock

client = fencelock.Client()


def app(environ, start):
    with client.lock("mine", ttl=60):
        threading.Event().wait(60)
"""
POLL = """
def poll():
    _say("polled")
    _PAUSE.wait(0.05)
"""


def pids(place, pattern):
    """Return the processes that have said something, in order, each once."""
    said = (place.path / "output").read_text(errors="replace")
    return list(dict.fromkeys(re.findall(pattern, said)))


def test_apscheduler_hands_over_at_sigterm(place):
    pytest.importorskip("apscheduler")
    (recipe,) = recipes("APScheduler")
    assert "ttl=10" in recipe
    place.put("jobs.py", recipe.replace("ttl=10", "ttl=600"))  # nobody waits for its end
    running = {str((one := place.start("python", "jobs.py")).pid): one for _ in range(3)}

    until(lambda: pids(place, r"tick (\d+)"))
    with fencelock.Client(place.url) as client:
        until(lambda: len(client.election("scheduler").candidates()) == 2)
        (first,) = pids(place, r"tick (\d+)")
        running[first].terminate()
        assert running[first].wait(40) == 0
        until(lambda: len(pids(place, r"tick (\d+)")) == 2)
        _, second = pids(place, r"tick (\d+)")
        (third,) = set(running) - {first, second}
        running[third].terminate()  # it waits for the leadership
        assert running[third].wait(40) == 0
        until(lambda: not client.election("scheduler").candidates())


def test_gunicorn(place):
    pytest.importorskip("gunicorn")
    (recipe,) = recipes("gunicorn")
    place.put("gunicorn.conf.py", WORK + POLL + recipe)
    place.put("app.py", "def app(environ, start):\n    start('200 OK', [])\n    return [b'']\n")
    place.start("gunicorn", "app:app", "--workers", "3", "--bind", f"unix:{place.path}/web")

    place.wait("polled", 3)
    (first,) = {line[1] for line in place.lines("polled")}
    with fencelock.Client(place.url) as client:
        until(lambda: len(client.election("poller").candidates()) == 2)
    os.kill(int(first), signal.SIGKILL)
    until(lambda: {line[1] for line in place.lines("polled")} != {first})

    order = [line[1] for line in place.lines("polled")]
    assert len(dict.fromkeys(order)) == 2
    assert order == sorted(order, key=list(dict.fromkeys(order)).index)


@pytest.mark.parametrize("kind", ["sync", "gthread", "gevent"])
def test_gunicorn_gives_back_what_a_killed_request_holds(place, kind):
    for module in ("gunicorn", "gevent")[: 1 + (kind == "gevent")]:
        pytest.importorskip(module)
    (recipe,) = recipes("gunicorn", page=SHUT_DOWN)
    place.put("gunicorn.conf.py", recipe)
    place.put("app.py", HOLDS)
    web = place.path / "web"
    words = ("--graceful-timeout", "4", "--worker-class", kind, "--bind", f"unix:{web}")
    worker = place.start("gunicorn", "app:app", *words)
    with socket.socket(socket.AF_UNIX) as asks, fencelock.Client(place.url) as client:
        until(lambda: not asks.connect_ex(str(web)))  # it is there before anybody listens
        asks.sendall(b"GET / HTTP/1.0\r\n\r\n")
        until(lambda: client.status("mine").held)
        worker.terminate()
        worker.wait(40)
        assert not client.status("mine").held


class Kubernetes:
    """The manifest's container, run as Kubernetes runs it: its command is the first process."""

    def __init__(self, place):
        yaml = pytest.importorskip("yaml")
        manifest, _ = (yaml.safe_load(text) for text in recipes("Kubernetes", "yaml"))
        self.spec = manifest["spec"]["jobTemplate"]["spec"]
        self.pod = self.spec["template"]["spec"]
        (self.container,) = self.pod["containers"]
        self.place = place

    def start(self, script, **instead):
        job = self.place.path / "nightly.sh"
        job.write_text(f"#!/bin/sh\n{script}\n")
        job.chmod(0o755)
        known = "/opt/jobs/nightly.sh"
        assert known in self.container["command"]
        instead[known] = str(job)
        return self.place.start(*(instead.get(word, word) for word in self.container["command"]))


def test_the_cron_job_of_kubernetes(place):
    jobs = Kubernetes(place)
    assert jobs.pod["restartPolicy"] == "Never"
    assert [each["name"] for each in jobs.container["env"]] == ["FENCELOCK_URL"]
    log = place.path / "log"
    says = f"trap 'echo term >> {log}; exit 0' TERM\necho began >> {log}"
    first = jobs.start(f"{says}\nsleep 60 & wait")
    place.wait("began", 1)

    busy = jobs.start(f"echo began >> {log}")
    assert busy.wait(60) == 0
    assert len(place.lines("began")) == 1

    first.send_signal(signal.SIGTERM)
    first.wait(jobs.pod["terminationGracePeriodSeconds"])
    assert len(place.lines("term")) == 1
    with fencelock.Client(place.url) as client:
        lock = client.lock("nightly")
        assert lock.acquire(blocking=False)  # at once: it was given back
        lock.release()


def test_the_grace_of_the_command_fits_that_of_the_pod(place):
    jobs = Kubernetes(place)
    (grace,) = (word for word in jobs.container["command"] if word.startswith("--grace="))
    seconds = int(grace.removeprefix("--grace=").removesuffix("s"))
    assert seconds < jobs.pod["terminationGracePeriodSeconds"]


def test_airflow_s_command_ends_with_the_status_that_skips(place):
    """Airflow itself is not run: its operator compares the exit status of this command."""
    (recipe,) = recipes("Airflow")
    command = re.search(r'bash_command="(.*)"', recipe)[1]
    status = int(re.search(r"skip_on_exit_code=(\d+)", recipe)[1])
    job = place.path / "import.sh"
    job.write_text("#!/bin/sh\nexit 3\n")
    job.chmod(0o755)
    command = command.replace("/opt/jobs/import.sh", str(job))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**place.environment, "PATH": path}

    def run():
        return subprocess.run(
            ["bash", "-c", command], env=environment, check=False, capture_output=True
        ).returncode

    assert run() == 3  # the job's own status
    with fencelock.Client(place.url) as client, client.lock("import:42"):
        assert run() == status
