"""A job of RQ, which runs in a fork of its worker."""

import os

import redis
import rq

import fencelock
from tests.integrations.load.work import PATIENCE, TTL, work

client = fencelock.Client(ttl=TTL)
if "FENCELOCK_URL" in os.environ:
    queue = rq.Queue(connection=redis.Redis.from_url(os.environ["FENCELOCK_URL"]))


def job(name, number):
    with client.lock(name, timeout=PATIENCE):
        work(name, number)
