"""What the commands of these tests do: report, and wait for a word."""

import os

from redis import Redis


def wait(word):
    redis = Redis.from_url(os.environ["FENCELOCK_URL"], socket_timeout=None)
    redis.rpush("began", os.getpid())
    redis.blpop([f"go:{word}"], timeout=60)
    redis.rpush("ended", os.getpid())
