"""The addresses of the dashboard, each with what it answers.

| address | answer |
| --- | --- |
| ``/``, ``/assets/…`` | the page and its files; they have no data |
| ``/api/board``, ``/api/graph``, ``/api/blockers``, ``/api/events`` | a view, as JSON |
| ``/api/signals`` | the events, latches and barriers |
| ``/api/lock?name=…`` | the view of one lock, or of what else has that name |
| ``POST /api/revoke`` | takes a lock away |
| ``/metrics`` | the numbers for Prometheus |
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from fencelock.dashboard.access import Access
from fencelock.dashboard.board import Board, View
from fencelock.dashboard.feed import Feed, ServerSource
from fencelock.dashboard.security import Guard, bearer, error
from fencelock.errors import FencelockError

BODY_BYTES_MAX: Final = 16_384
REASON_CHARS_MAX: Final = 200
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(
    source: ServerSource, access: Access, version: str, note: Callable[[str], None]
) -> Guard:
    """Return the dashboard over a source, as an ASGI application.

    ``note`` is called with each request to revoke, and where it came from.
    """
    feed = Feed(source, {"version": version, "revoke": access.may_revoke})
    views = _Views(feed, access, note)
    routes = [
        Route("/", _asset("index.html")),
        *(Route(f"/assets/{name}", _asset(name)) for name in asset_names()),
        Route("/api/board", views.of("board", Board.all_locks)),
        Route("/api/graph", views.of("graph", lambda board: board.graph.drawing())),
        Route("/api/blockers", views.of("blockers", Board.blockers)),
        Route("/api/events", views.of("events", Board.all_events)),
        Route("/api/signals", views.signals),
        Route("/api/lock", views.lock),
        Route("/api/revoke", views.revoke, methods=["POST"]),
        Route("/metrics", views.metrics),
    ]
    handlers: Any = {HTTPException: _refusal, ClientDisconnect: _gone}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), access)


async def _refusal(_request: Request, why: Exception) -> Response:
    assert isinstance(why, HTTPException)  # noqa: S101 - starlette calls it for no other
    answer = error(why.status_code, why.detail)
    answer.headers.update(why.headers or {})
    return answer


async def _gone(_request: Request, _why: Exception) -> Response:
    return Response(status_code=400)


class _Views:
    """The endpoints that answer with data of the server, after they checked the token."""

    def __init__(self, feed: Feed, access: Access, note: Callable[[str], None]) -> None:
        self._feed = feed
        self._note = note
        self._access = access

    def of(self, key: str, make: Callable[[Board], dict[str, Any]]) -> Endpoint:
        """Return the endpoint of a view of all locks."""

        async def answer(request: Request) -> Response:
            self._check_reading(request)
            board = await self._feed.board()
            view = await run_in_threadpool(board.shared_view, key, make)
            return self._answer(request, view, board)

        return answer

    async def lock(self, request: Request) -> Response:
        """Answer with the view of one lock."""
        self._check_reading(request)
        try:
            view = await self._feed.lock(request.query_params.get("name", ""))
        except ValueError as wrong:
            return error(400, str(wrong))
        except FencelockError as wrong:
            return error(502, str(wrong))
        return self._answer(request, view, await self._feed.board())

    async def signals(self, request: Request) -> Response:
        """Answer with the events, latches and barriers."""
        self._check_reading(request)
        try:
            view = await self._feed.signals()
        except FencelockError as wrong:
            return error(502, str(wrong))
        return self._answer(request, view, await self._feed.board())

    async def metrics(self, request: Request) -> Response:
        """Answer with the numbers for Prometheus."""
        self._check_reading(request)
        board = await self._feed.board()
        text = await run_in_threadpool(board.exposition)
        return Response(text, headers={"Content-Type": METRICS_TYPE, "Cache-Control": "no-store"})

    async def revoke(self, request: Request) -> Response:
        """Take a lock away."""
        if not self._access.may_revoke:
            raise HTTPException(403, "this dashboard is read-only: start it with --allow-revoke")
        if not self._access.opens_revoking(bearer(request.headers)):
            raise _unauthorized()
        data = await _json_of(request)
        name = _text(data, "name", 1024)
        reason = _text(data, "reason", REASON_CHARS_MAX)
        fence, who = _number(data, "fence"), data.get("only")
        if who is not None and not isinstance(who, dict):
            raise HTTPException(400, "only must be null, or an object with host and pid")
        only = None if who is None else (_text(who, "host", 255), _number(who, "pid"))
        came = request.client.host if request.client else "?"
        try:
            lost = await self._feed.revoke(name, reason, only, fence, f"{came} (dashboard)")
        except ValueError as wrong:
            return error(400, str(wrong))
        except FencelockError as wrong:
            return error(502, str(wrong))
        done = "revoked" if lost else "did not revoke, as its holder had changed,"
        self._note(f"{came} {done} {name!r}: {reason!r}")
        if lost is None:
            return error(409, "its holder has changed since the page was loaded: look again")
        return Response(json.dumps({"revoked": name}), media_type="application/json")

    def _answer(self, request: Request, view: View, board: Board) -> Response:
        headers = {
            "Cache-Control": "no-store",
            "ETag": view.tag,
            "Fencelock-Now": f"{self._feed.now:.3f}",
            "Fencelock-Age": f"{board.age():.3f}",
        }
        if board.trouble:
            headers["Fencelock-Trouble"] = board.trouble.encode("ascii", "replace").decode()
        if request.headers.get("if-none-match") == view.tag:
            return Response(status_code=304, headers=headers)
        return Response(view.body, media_type="application/json", headers=headers)

    def _check_reading(self, request: Request) -> None:
        if not self._access.opens_reading(bearer(request.headers)):
            raise _unauthorized()


def _unauthorized() -> HTTPException:
    header = {"WWW-Authenticate": "Bearer"}
    return HTTPException(401, "this needs the token of the dashboard", header)


def _text(data: dict[str, Any], name: str, most: int) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise HTTPException(400, f"{name} must be a text of 1 to {most} characters")
    return value if name == "name" else value.strip()


def _number(data: dict[str, Any], name: str) -> int:
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise HTTPException(400, f"{name} must be a number of 0 or more")
    return value


async def _json_of(request: Request) -> dict[str, Any]:
    """Return the body of a request, if it is a JSON object of a reasonable size."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "the body must be application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            raise HTTPException(413, f"the body must be at most {BODY_BYTES_MAX} bytes")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):  # the second: brackets in brackets
        raise HTTPException(400, "the body must be JSON") from None
    if not isinstance(data, dict):
        raise HTTPException(400, "the body must be a JSON object")
    return data


# -- the page ------------------------------------------------------------------------------------


def asset_names() -> list[str]:
    """Return the files of the page."""
    return sorted(each.name for each in _assets().iterdir() if each.is_file())


def _assets() -> Any:
    return resources.files("fencelock.dashboard") / "assets"


def _asset(name: str) -> Endpoint:
    """Return the endpoint of one file, which is read once."""
    body = (_assets() / name).read_bytes()
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    media = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    headers = {"Cache-Control": "no-cache", "ETag": tag}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=media, headers=headers)

    return answer
