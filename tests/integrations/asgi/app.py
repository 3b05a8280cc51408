"""The application of the tests, run by uvicorn with several workers.

What happens is appended to the file that is named in the environment, a line each.
"""

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI
from starlette.requests import Request

import fencelock
from fencelock.contrib.asgi import CancelOnDisconnect, Leading, hold, locked

# Long enough for a worker of a busy machine to renew in time.
client = fencelock.AsyncClient(os.environ["FENCELOCK_URL"], ttl=6.0)


def says(*words):
    with Path(os.environ["SAID"]).open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


async def works(lease):
    """Lead until the end."""
    says("leads", os.getpid(), lease.fence)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        says("cancelled", os.getpid(), lease.lost)


@asynccontextmanager
async def lifespan(app):
    async with client, Leading(client, "jobs", works, pause=0.5):
        yield


async def stays():
    """Stay until the test lets all go on."""
    says("began", os.getpid())
    try:
        await client.event("go").wait()
    except asyncio.CancelledError:
        says("handler cancelled", os.getpid())
        raise
    says("done", os.getpid())
    return {"pid": os.getpid()}


inner = FastAPI(lifespan=lifespan)
inner.add_api_route("/pid", os.getpid)


@inner.get("/orders/{order_id}")
async def order(lease: Annotated[Any, Depends(locked(client, "order:{order_id}", retry_after=2))]):
    return await stays()


@inner.post("/upload/{order_id}")
async def upload(
    request: Request,
    lease: Annotated[Any, Depends(locked(client, "order:{order_id}", status=423, timeout=1))],
):
    return {"bytes": len(await request.body()), "fence": lease.fence}


@inner.get("/plain")
async def plain(request: Request):
    async with hold(request, client, "order:{id}"):
        return await stays()


app = CancelOnDisconnect(inner) if os.environ.get("CANCELS") else inner
