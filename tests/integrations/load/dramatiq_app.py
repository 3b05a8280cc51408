"""An actor of Dramatiq; what a dead process had taken is given to another after some seconds."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

import fencelock
from tests.integrations.load.work import TTL, work

dramatiq.set_broker(
    RedisBroker(url=os.environ["FENCELOCK_URL"], heartbeat_timeout=6000, maintenance_chance=100_000)
)
client = fencelock.Client(ttl=TTL)


@dramatiq.actor(max_retries=100)
def job(name, number):
    try:
        with client.lock(name, timeout=2):
            work(name, number)
    except fencelock.NotAcquired as busy:
        raise dramatiq.errors.Retry(str(busy), delay=200) from busy
