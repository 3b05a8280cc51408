"""Workers and beats of Celery as real processes, in groups of their own, over one server."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import waiting

ROOT = Path(__file__).resolve().parents[3]
JOBS = "tests.integrations.celery.jobs"
SECONDS = 40  # a busy machine starts a worker in ten


def _path():
    return os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])


def until(look, what="the state"):
    """Ask until the answer is true, and return it; leave the processor to the workers."""
    return waiting.until(look, what, SECONDS, tick=0.02)


class Process:
    """One command of Celery, with its children in a process group."""

    def __init__(self, server, folder, *args, number=0, environment=()):
        self.log = folder / f"{args[0]}-{number}.log"
        env = {**os.environ, "JOBS_BROKER": server.tcp_url, "PYTHONPATH": _path()}
        env |= {"PYTHONWARNINGS": "default", "C_FORCE_ROOT": "1", **dict(environment)}
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", JOBS, *args],
                cwd=folder,
                env=env,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self):
        return self._process.pid

    def said(self, text):
        """Wait until the process has logged a text."""
        until(lambda: text in self.log.read_text() or self._ended(), f"{text!r} in {self.log}")
        return self

    def _ended(self):
        if self._process.poll() is not None:
            pytest.fail(f"ended with {self._process.returncode}:\n{self.log.read_text()}")

    def kill(self):
        """End it and its children with SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(SECONDS)

    def freeze(self):
        """Stop it and its children."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self):
        """Let it run on."""
        os.killpg(self.pid, signal.SIGCONT)

    def stop(self):
        """Ask it to end, as an operator would; return its exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(SECONDS)


class Fleet:
    """What one test starts."""

    def __init__(self, server, folder):
        self._server = server
        self._folder = folder
        self._started = []

    def worker(self, *args, pool="prefork", slots=1, ttl=6.0, conf=None):
        """Start a worker; return once it takes messages."""
        number = len(self._started)
        given = ["worker", f"--pool={pool}", f"--concurrency={slots}", "--loglevel=INFO"]
        given += [f"--hostname=w{number}@%h", "--without-gossip", "--without-mingle", *args]
        env = {"JOBS_TTL": str(ttl), "JOBS_CONF": json.dumps(conf or {})}
        return self._start(*given, environment=env).said(" ready.")

    def beat(self, *args, conf=None, ttl=6.0):
        """Start a beat with a schedule file of its own."""
        number = len(self._started)
        given = ["beat", "--loglevel=INFO", f"--schedule=schedule-{number}", "--pidfile=", *args]
        env = {"JOBS_TTL": str(ttl), "JOBS_CONF": json.dumps(conf or {})}
        return self._start(*given, environment=env)

    def _start(self, *args, environment):
        process = Process(
            self._server, self._folder, *args, number=len(self._started), environment=environment
        )
        self._started.append(process)
        return process

    def close(self):
        for each in self._started:
            each.kill()
