"""FastAPI and Starlette: each way in which a request has a lock and does its work."""

from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio.to_thread
from fastapi import Depends, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

import fencelock
from fencelock.contrib.asgi import hold, locked
from tests.integrations.load.work import PATIENCE, TTL, awork, work

client = fencelock.AsyncClient(ttl=TTL)
blocking = fencelock.Client(ttl=TTL)
Held = Annotated[Any, Depends(locked(client, "{name}", timeout=PATIENCE))]
HeldByThread = Annotated[Any, Depends(locked(blocking, "{name}", timeout=PATIENCE))]


@asynccontextmanager
async def lifespan(app):
    anyio.to_thread.current_default_thread_limiter().total_tokens = 3  # far less than requests
    async with client:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/def/{name}/{number}")
def in_thread(name: str, number: int, lease: Held):
    work(name, number)


@app.get("/blocking/{name}/{number}")
def with_blocking_client(name: str, number: int, lease: HeldByThread):
    work(name, number)


@app.get("/async/{name}/{number}")
async def in_task(name: str, number: int, lease: Held):
    await awork(name, number)


@app.get("/hold/{name}/{number}")
async def in_pool(request: Request, name: str, number: int):
    async with hold(request, client, "{name}", timeout=PATIENCE):
        await run_in_threadpool(work, name, number)
