"""The app of these tests: tasks that report to the broker's server, and wait there for a word.

A run of ``hold`` appends "pid id" to the list ``began``, waits until something is in ``go:KEY``,
and appends to ``ended``. A test waits for these lists, never for a time.
"""

import json
import os
import threading

from celery import Celery
from redis import Redis

from fencelock.contrib.celery import current_lease, exclusive

BROKER = os.environ["JOBS_BROKER"]
PATIENCE = 60  # seconds: longer than any test lets a run wait

app = Celery("jobs", broker=BROKER, backend=BROKER)
app.conf.update(
    fencelock={"source": BROKER, "ttl": float(os.environ.get("JOBS_TTL", "2"))},
    result_extended=True,
    task_track_started=True,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
    **json.loads(os.environ.get("JOBS_CONF", "{}")),
)


def report(key: str) -> str:
    """Say that a run has begun, wait for a word, and say that it has ended."""
    redis = Redis.from_url(BROKER, socket_timeout=None)
    redis.rpush("began", f"{os.getpid()} {threading.get_ident()} {key} {current_lease().fence}")
    word = redis.blpop([f"go:{key}"], timeout=PATIENCE)
    redis.rpush("ended", key)
    return word[1].decode() if word else "no word"


@app.task
@exclusive("hold:{key}", countdown=0.2)
def hold(key, other=0):
    return report(key)


@app.task
@exclusive("hold:{key}", busy="skip")
def skip(key):
    return report(key)


@app.task
@exclusive("hold:{key}", busy="raise")
def refuse(key):
    return report(key)


@app.task(bind=True, max_retries=2)
@exclusive("hold:{key}", countdown=0.1, retries=3)
def bound(self, key="usual"):
    return f"{self.request.id} {report(key)}"


@exclusive("hold:{key}", busy="raise")
@app.task(bind=True)
def above(self, key="usual"):
    return f"{self.request.id} {report(key)}"


@app.task(bind=True)
@exclusive("hold:{key}", countdown=0.1, lost="retry")
def stubborn(self, key):
    return f"{report(key)} after {self.request.retries}"


@app.task(acks_late=True, reject_on_worker_lost=True)
@exclusive("hold:{key}", busy="skip")
def late(key):
    return report(key)


@app.task
@exclusive("hold:{key}", busy="raise")
def outer(key):
    """Call another task of the same key: a part of this run."""
    return "outer " + refuse(key)


@app.task
@exclusive("hold:{key}", countdown=0.1)
def swallow(key):
    """Go on in spite of everything."""
    try:
        return report(key)
    except Exception:  # noqa: BLE001 - as careless tasks do
        Redis.from_url(BROKER, socket_timeout=None).rpush("swallowed", key)
        return "went on"


@app.task
@exclusive("hold:{key}", countdown=0.1)
def spin(key):
    """Compute: Python can interrupt that in any thread."""
    redis = Redis.from_url(BROKER, socket_timeout=None)
    redis.rpush("began", f"{os.getpid()} {threading.get_ident()} {key} {current_lease().fence}")
    while not redis.llen(f"go:{key}"):
        pass
    return "spun"


@app.task
def body(results):
    return results


@app.task
def due():
    """Be sent by a beat."""
