"""What the parts for ASGI refuse, and how they answer without a handler."""

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

import fencelock
from fencelock.contrib import asgi
from fencelock.testing import inactive

fastapi = pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")


@pytest.fixture(autouse=True)
def _no_server():
    with inactive():
        yield


@pytest.mark.parametrize(
    ("template", "error"),
    [
        ("order:{}", "must be the name of a path or query parameter"),
        ("order:{a.b}", "must be the name"),
        ("order:{a:>3}", "must be the name"),
        ("order:{a!r}", "must be the name"),
        ("order:{a}{b}", "need a text such as ':' between them"),
    ],
)
def test_a_template_is_checked_when_it_is_given(template, error):
    with pytest.raises(ValueError, match=error):
        asgi.locked(fencelock.AsyncClient("redis://nowhere"), template)


def test_wrong_options_are_refused_before_any_request():
    client = fencelock.AsyncClient("redis://nowhere")
    with pytest.raises(ValueError, match="409 or 423"):
        asgi.locked(client, "a:{b}", status=200)
    with pytest.raises(TypeError, match="a Client, not 'redis"):
        asgi.locked("redis://nowhere", "a:{b}")
    with pytest.raises(ValueError, match="retry_after"):
        asgi.locked(client, "a:{b}", retry_after=0)
    with pytest.raises(ValueError, match="ttl"):
        asgi.locked(client, "a:{b}", ttl=-1)


def answers(path, template="order:{order_id}"):
    """Return the answer of an application in this process."""

    async def main():
        async with fencelock.AsyncClient("redis://nowhere") as client:
            app = fastapi.FastAPI()
            needed = fastapi.Depends(asgi.locked(client, template))

            @app.get("/orders/{order_id}")
            async def order(lease: Annotated[Any, needed], size: int = 0):
                return lease.name

            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://x") as browser:
                return await browser.get(path)

    return asyncio.run(main())


def test_the_path_goes_before_the_query():
    assert answers("/orders/7?order_id=8").json() == "order:7"
    assert answers("/orders/7?part=b", "order:{order_id}:{part}").json() == "order:7:b"


def test_a_missing_parameter_is_the_clients_mistake():
    found = answers("/orders/7", "order:{order_id}:{size}")
    assert (found.status_code, found.json()["detail"]) == (400, "missing parameter: size")


def test_a_name_that_is_no_parameter_is_the_servers_mistake(caplog):
    assert answers("/orders/7", "order:{ordr_id}").status_code == 500
    assert "the route /orders/{order_id} has no parameter ordr_id" in caplog.text
    assert answers("/orders/7", "orders").json() == "orders"


def test_a_value_that_makes_no_name_is_the_clients_mistake():
    assert answers(f"/orders/{'x' * 5000}").status_code == 400


def test_a_value_cannot_reach_into_the_next_parameter():
    template = "order:{order_id}:{part}"
    found = [answers(f"/orders/{path}", template).json() for path in ("1:2?part=3", "1?part=2:3")]
    assert found == ["order:1%3A2:3", "order:1:2:3"]


@pytest.mark.parametrize("status", [409, 423])
def test_openapi_shows_the_answers_of_a_lock(status):
    client, app = fencelock.AsyncClient("redis://nowhere"), fastapi.FastAPI()
    order = asgi.locked(client, "order:{order_id}", status=status, retry_after=2.5)

    @app.get("/orders/{order_id}", responses=order.responses)
    async def get(order_id: str, lease: Annotated[Any, fastapi.Depends(order)]): ...

    route = app.openapi()["paths"]["/orders/{order_id}"]["get"]
    shown = route["responses"]
    assert set(shown) == {"200", "400", "422", str(status)}
    busy = shown[str(status)]
    assert "holds the lock" in busy["description"]
    assert "Retry-After" in busy["headers"]
    assert busy["content"]["application/json"]["example"]["detail"]["retry_after"] == 3
    assert [each["name"] for each in route["parameters"]] == ["order_id"]


def test_values_are_not_templates():
    assert answers("/orders/%7Border_id%7D").json() == "order:{order_id}"


def test_a_web_socket_holds_its_lock_and_another_is_denied():
    testclient = pytest.importorskip("starlette.testclient")
    client = fencelock.AsyncClient("redis://nowhere")

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with client:
            yield

    app = fastapi.FastAPI(lifespan=lifespan)
    needed = fastapi.Depends(asgi.locked(client, "order:{order_id}"))

    @app.websocket("/orders/{order_id}")
    async def order(socket: fastapi.WebSocket, lease: Annotated[Any, needed]):
        await socket.accept()
        await socket.send_text(lease.name)
        await socket.receive()

    with testclient.TestClient(app) as browser:
        with browser.websocket_connect("/orders/7") as first:
            assert first.receive_text() == "order:7"
            with pytest.raises(testclient.WebSocketDenialResponse) as denied:
                browser.websocket_connect("/orders/7").__enter__()
            assert denied.value.status_code == 409
            assert denied.value.json()["detail"]["error"] == "busy"
        with browser.websocket_connect("/orders/7") as later:
            assert later.receive_text() == "order:7"


def test_without_starlette_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette.exceptions", None)
    monkeypatch.delitem(sys.modules, "fencelock.contrib.asgi.requests", raising=False)
    monkeypatch.delitem(vars(asgi), "locked", raising=False)
    with pytest.raises(ImportError, match="extra 'asgi'"):
        _ = asgi.locked


PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "asgi.md"


def test_the_page_begins_with_an_application_that_runs(monkeypatch):
    monkeypatch.setenv("FENCELOCK_URL", "redis://nowhere")
    testclient = pytest.importorskip("starlette.testclient")
    text = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    space: dict[str, Any] = {}
    exec(compile(text, str(PAGE), "exec"), space)

    with testclient.TestClient(space["app"]) as browser:
        answer = browser.post("/orders/7/pay")

    assert answer.status_code == 200
    assert answer.json()["fence"] > 0
