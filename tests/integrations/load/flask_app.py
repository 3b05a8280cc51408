"""Flask: a blocking view, and one of coroutines, for which each request has its own event loop."""

import os

from flask import Flask

import fencelock
from tests.integrations.load.work import PATIENCE, TTL, awork, work

app = Flask(__name__)
client = fencelock.Client(ttl=TTL)
tasks = fencelock.AsyncClient(ttl=TTL)
if os.environ.get("USED_BEFORE_FORK"):
    with client.lock("a"):
        pass


@app.get("/def/<name>/<int:number>")
def blocking(name, number):
    with client.lock(name, timeout=PATIENCE):
        work(name, number)
    return ""


@app.get("/async/<name>/<int:number>")
async def in_task(name, number):
    async with tasks.lock(name, timeout=PATIENCE):
        await awork(name, number)
    return ""
