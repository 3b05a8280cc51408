"""Requests that are refused before any view sees them, and the headers of every answer.

Rules:

- The Host header must have an expected name. A foreign page whose name was made to resolve to this
  server (DNS rebinding) sends its own name. It knows no token: so `/metrics` with a token may be
  asked for by any name or address, as Prometheus asks pods.
- A request that a page sends must come from the dashboard's own page, by ``Origin`` and
  ``Sec-Fetch-Site``. No answer may be read by another origin.
- Tokens travel in the header ``Authorization`` only. There is no cookie, so no other page can make
  a browser use a token.
- The page may load only files of this server, and run only scripts among them.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencelock.dashboard.access import Access

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_OWN_SITE: Final = frozenset({"same-origin", "none"})  # none: typed into the address bar


class Guard:
    """Refuses what comes from elsewhere, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web socket is served here
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._refused(Headers(scope=scope), scope["path"])
        await (refused or self._app)(scope, receive, sending)

    def _refused(self, headers: Headers, path: str) -> JSONResponse | None:
        host = headers.getlist("host")
        scrape = path == "/metrics" and self._access.knows(bearer(headers))
        expected = scrape or (len(host) == 1 and host_name(host[0]) in self._access.hosts)
        if len(host) != 1 or not expected:
            hint = "start it with --allow-host if it should be reached by this name"
            return error(421, f"this dashboard does not serve that host name; {hint}")
        own = {f"{scheme}://{host[0].lower()}" for scheme in ("http", "https")}  # or a proxy's TLS
        if any(each.lower() not in own for each in headers.getlist("origin")):
            return error(403, "requests of other pages are refused")
        has_data = not (path == "/" or path.startswith("/assets/"))  # the page may be linked to
        if has_data and headers.get("sec-fetch-site", "none") not in _OWN_SITE:
            return error(403, "requests of other pages are refused")
        return None


def error(status: int, message: str) -> JSONResponse:
    """Return an answer that says why not."""
    return JSONResponse({"error": message}, status, {"Cache-Control": "no-store"})


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without the port; None when it cannot be read."""
    try:
        split = urlsplit(f"//{host}")
        if split.netloc != host or "@" in host or (split.port is not None and split.port < 1):
            return None
    except ValueError:
        return None
    return split.hostname


def bearer(headers: Headers) -> str:
    """Return the token that a request brings, or an empty text."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
