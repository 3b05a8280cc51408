"""A task of Celery; a run whose process dies is delivered again."""

import os

from celery import Celery

from fencelock.contrib.celery import exclusive
from tests.integrations.load.work import PATIENCE, TTL, work

URL = os.environ.get("FENCELOCK_URL")
app = Celery("load", broker=URL)
app.conf.update(fencelock={"source": URL, "ttl": TTL}, broker_connection_retry_on_startup=True)


@app.task(acks_late=True, reject_on_worker_lost=True)
@exclusive("{name}", timeout=PATIENCE)
def job(name, number):
    work(name, number)
