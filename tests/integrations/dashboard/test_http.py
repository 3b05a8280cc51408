"""What the dashboard answers, over HTTP, with a real server behind it."""

import asyncio
import contextlib
import json
import re
import time

import pytest

import fencelock
from tests.integrations.dashboard.conftest import OWN, READ_TOKEN, TOKEN, until

pytest.importorskip("uvicorn")
pytest.importorskip("starlette.testclient")

from fencelock.dashboard.app import BODY_BYTES_MAX, asset_names
from fencelock.dashboard.feed import Feed
from fencelock.dashboard.security import HEADERS

VIEWS = [
    "/api/board",
    "/api/graph",
    "/api/blockers",
    "/api/events",
    "/api/signals",
    "/api/lock?name=x",
]
DATA = [*VIEWS, "/metrics"]
HOSTILE = [
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "a\u202egnp.exe",
    "with/slash?and=query#and%2Fmore",
    "{braces}~x\n new line",
    "名前",
]


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def lock_row(http, name):
    rows = http.get("/api/board").json()["locks"]
    return next((row for row in rows if row["name"] == name), None)


# --- what is shown --------------------------------------------------------------------------------


def test_a_lock_that_is_held_and_its_waiter(http, client, waiter):
    with client.lock("orders:42"):
        waiter("orders:42")
        row = until(lambda: (r := lock_row(http, "orders:42")) and r["waiting"] and r)

        assert (row["state"], row["holder"]["label"], row["waiting"]) == ("held", "shop", 1)
        one = http.get("/api/lock", params={"name": "orders:42"}).json()
        assert [each["label"] for each in one["status"]["waiters"]] == ["cart"]
        assert one["key"] == "fencelock:orders:42"
        blocked = http.get("/api/blockers").json()["now"]
        assert [(each["label"], each["direct"]) for each in blocked] == [("shop", 1)]


def test_a_lock_that_is_taken_later_is_found_without_a_history(http, client):
    assert http.get("/api/board").json()["locks"] == []
    with client.lock("later"):
        until(lambda: lock_row(http, "later"))  # which takes less than the 30 s of a big server


@pytest.mark.usefixtures("patient")
def test_the_history_is_shown(http, server, waiter, client):
    keeping = fencelock.History(threshold=0.01)
    with (
        fencelock.Client(server.url, label="slow", history=keeping) as slow,
        client.lock("orders:42"),
    ):
        assert not slow.lock("orders:42").acquire(timeout=0.05)
    events = until(lambda: http.get("/api/events").json()["events"])

    assert [(e["kind"], e["name"], e["label"]) for e in events] == [("wait", "orders:42", "slow")]
    assert re.fullmatch(r"timed out, held by \S+:\d+ \(MainThread, \w+\) for .+", events[0]["why"])
    most = http.get("/api/blockers").json()["locks"]
    assert [(row["name"], row["times"]) for row in most] == [("orders:42", 1)]
    assert http.get("/api/lock?name=orders:42").json()["events"] == events
    assert 'fencelock_server_events_1h{kind="wait"} 1' in http.get("/metrics").text


def test_events_latches_and_barriers_are_shown(http, client):
    client.event("ready").set()
    client.latch("three", 3).count_down()
    shown = {row["name"]: row for row in http.get("/api/signals").json()["signals"]}
    assert (shown["ready"]["kind"], shown["ready"]["state"]) == ("event", "set")
    assert (shown["three"]["kind"], shown["three"]["state"]) == ("latch", "closed, 2 of 3 left")
    assert shown["ready"]["until"] > time.time()

    one = http.get("/api/lock", params={"name": "ready"}).json()["signal"]
    assert (one["kind"], one["state"], one["waiting"]) == ("event", "set", 0)
    assert http.get("/api/lock?name=nothing").json()["signal"] is None


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_data_and_nothing_else(http, client, name):
    with client.lock(name):
        answer = http.get("/api/board")

        assert [row["name"] for row in answer.json()["locks"]] == [name]
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.text.isascii()
        one = http.get("/api/lock", params={"name": name}).json()
        assert one["status"]["holder"]["label"] == "shop"


def test_a_lock_that_only_another_program_holds_has_a_page(http, server):
    server.command("SET", "fencelock:theirs", "x", "PX", 60000)

    status = http.get("/api/lock?name=theirs").json()["status"]

    assert (status["foreign"], status["holders"][0]["foreign"]) == (True, True)


def test_the_metrics_are_what_prometheus_reads(http, client, waiter):
    parser = pytest.importorskip("prometheus_client.parser")
    with client.lock("orders:42"):
        waiter("orders:42")
        until(lambda: (r := lock_row(http, "orders:42")) and r["waiting"])
        answer = http.get("/metrics")

    families = list(parser.text_string_to_metric_families(answer.text))
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for f in families
        for sample in f.samples
    }
    assert values["fencelock_server_up",] == 1
    assert values["fencelock_server_locks", "held"] == 1
    assert values["fencelock_server_waiters",] == 1
    assert "orders" not in answer.text


# --- one look a second ----------------------------------------------------------------------------


def test_browsers_share_a_look(make_http, server, client):
    http = make_http()
    with client.lock("a"):
        http.get("/api/board")
        server.command("CONFIG", "RESETSTAT")
        begun = time.monotonic()
        for _ in range(5):
            http.get("/api/board"), http.get("/api/graph"), http.get("/api/lock?name=a")
        seconds = 1 + int(time.monotonic() - begun)

    # Within each second there is one more look at the most, of two commands.
    asked = {k: n for k, n in server.commandstats().items() if k in {"evalsha", "zrange", "xrange"}}
    assert sum(asked.values()) <= 6 * seconds, asked


def test_browsers_that_ask_at_once_share_the_first_look():
    looks = []

    class Counting:
        server = prefix = ""
        commands = 1

        def locks(self):
            looks.append("look")
            return []

        def events(self):
            return []

    async def ask():
        feed = Feed(Counting(), {})
        return await asyncio.gather(*(feed.board() for _ in range(5)))

    boards = asyncio.run(ask())

    assert (len(looks), len(set(boards))) == (1, 1)


def test_what_has_not_changed_is_not_sent_again(http, server):
    server.command("SET", "fencelock:theirs", "x")
    first = http.get("/api/events")

    again = http.get("/api/events", headers={"If-None-Match": first.headers["etag"]})

    assert (again.status_code, again.content) == (304, b"")
    assert float(again.headers["fencelock-now"]) >= float(first.headers["fencelock-now"])


def test_while_the_server_is_away_the_last_state_is_shown(own_server, make_http):
    http = make_http(own_server.url)
    with fencelock.Client(own_server.url) as client:
        lock = client.lock("a")
        assert lock.acquire()
        assert http.get("/api/board").json()["totals"]["held"] == 1
        own_server.kill()
        answer = until(lambda: (a := http.get("/api/board")).headers.get("fencelock-trouble") and a)

        assert answer.json()["totals"]["held"] == 1
        assert "fencelock_server_up 0" in http.get("/metrics").text
        own_server.restart()
        until(lambda: "fencelock-trouble" not in http.get("/api/board").headers)
        lock.release() if lock.owned() else None


# --- who may ask ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/assets/app.js", *DATA])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example:8321",
        "",
        "localhost@evil.example",
        "127.0.0.1:0x",
        "2130706433",
    ],
)
def test_another_host_is_refused(http, path, host):
    answer = http.get(path, headers={"Host": host})

    assert answer.status_code in {400, 421}
    assert "fencelock-now" not in answer.headers


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9000", "127.0.0.1:8321", "[::1]:8321"])
def test_the_names_of_this_machine_are_let_in(http, host):
    assert http.get("/api/board", headers={"Host": host}).status_code == 200


def test_a_further_host_is_let_in_when_it_is_named(make_http):
    http = make_http(hosts=frozenset({"locks.example"}))

    assert http.get("/api/board", headers={"Host": "locks.example"}).status_code == 200
    assert http.get("/api/board", headers={"Host": "localhost"}).status_code == 421


def test_metrics_are_read_by_any_address_with_a_token(make_http):
    """Prometheus asks a pod, or a service, by an address that no option can name."""
    http = make_http(read_token="0123456789abcdef")
    for host, token, status in (
        *(("10.244.0.7:8321", "0123456789abcdef", 200), ("10.244.0.7:8321", "wrong", 421)),
        *(("10.244.0.7:8321", "", 421), ("localhost", "", 401)),
    ):
        headers = {"Host": host, "Authorization": f"Bearer {token}"}
        assert http.get("/metrics", headers=headers).status_code == status
        assert http.get("/api/board", headers=headers).status_code != 200


FOREIGN = [
    "http://evil.example",
    "null",
    "http://127.0.0.1:9999",
    "https://localhost:8321",
    f"{OWN}.evil.example",
    "file://",
]


OTHER_PAGES = [
    *({"Origin": each} for each in FOREIGN),
    *({"Sec-Fetch-Site": each} for each in ("cross-site", "same-site")),
]


@pytest.mark.parametrize("path", DATA)
@pytest.mark.parametrize("headers", OTHER_PAGES, ids=str)
def test_a_request_of_another_page_is_refused(http, path, headers):
    assert http.get(path, headers=headers).status_code == 403


def test_its_own_page_may_ask(http):
    mine = {"Origin": OWN, "Sec-Fetch-Site": "same-origin"}

    assert http.get("/api/board", headers=mine).status_code == 200
    assert http.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/", *(f"/assets/{name}" for name in asset_names()), *DATA, "/nowhere"]
)
def test_every_answer_has_the_headers_and_allows_no_other_origin(http, path):
    headers = http.get(path).headers

    assert {name: headers.get(name) for name in HEADERS} == HEADERS
    assert not [name for name in headers if name.startswith("access-control")]
    assert "set-cookie" not in headers


def test_the_policy_lets_nothing_run_that_is_no_file_of_ours():
    policy = HEADERS["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize(
    "path", ["/assets/../app.py", "/assets/%2e%2e/app.py", "/assets//etc/passwd", "/assets/"]
)
def test_no_other_file_is_served(http, path):
    assert http.get(path).status_code == 404


@pytest.mark.parametrize("path", DATA)
def test_reading_needs_its_token_where_there_is_one(make_http, path):
    http = make_http(read_token=READ_TOKEN, token=TOKEN)

    asked = [
        http.get(path, headers=each).status_code
        for each in ({}, bearer("wrong"), bearer(READ_TOKEN), bearer(TOKEN))
    ]

    assert asked == [401, 401, 200, 200]
    assert http.get(f"{path}{'&' if '?' in path else '?'}token={TOKEN}").status_code == 401
    assert http.get("/").status_code == 200


def test_no_data_can_be_kept_by_a_cache(http):
    assert {http.get(path).headers["cache-control"] for path in DATA} == {"no-store"}


# --- revoking -------------------------------------------------------------------------------------


def revoke(http, token=TOKEN, headers=None, **body):
    given = {"name": "orders:42", "reason": "host is down", "fence": 0, "only": None} | body
    return http.post("/api/revoke", json=given, headers=bearer(token) | (headers or {}))


@pytest.fixture
def lease(client):
    """Lend the lease of a lock, which the test may revoke."""
    lock = client.lock("orders:42", renew=False)
    assert lock.acquire()
    yield lock.lease
    with contextlib.suppress(fencelock.LeaseLost, fencelock.NotHeld):
        lock.release()


def held(client):
    return client.status("orders:42").held


def test_a_lock_is_revoked_with_a_reason_that_is_noted(make_http, client, lease):
    notes = []
    http = make_http(token=TOKEN, notes=notes)

    answer = revoke(http, fence=lease.fence)

    assert (answer.status_code, answer.json()) == (200, {"revoked": "orders:42"})
    assert not held(client)
    assert notes == ["testclient revoked 'orders:42': 'host is down'"]


def test_the_next_waiter_is_granted_and_shown_at_once(http, client, lease, waiter):
    waiter("orders:42")
    until(lambda: (r := lock_row(http, "orders:42")) and r["waiting"])

    revoke(http, fence=lease.fence)

    until(lambda: lock_row(http, "orders:42")["holder"]["label"] == "cart")


def test_what_only_shows_cannot_revoke(make_http, client, lease):
    answer = revoke(make_http(), fence=lease.fence)

    assert (answer.status_code, held(client)) == (403, True)
    assert "--allow-revoke" in answer.json()["error"]


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", READ_TOKEN])
def test_a_wrong_token_cannot_revoke(make_http, client, lease, token):
    http = make_http(token=TOKEN, read_token=READ_TOKEN)

    answer = revoke(http, token, fence=lease.fence)

    assert (answer.status_code, held(client)) == (401, True)
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("headers", OTHER_PAGES, ids=str)
def test_another_page_cannot_revoke_even_with_the_token(http, client, lease, headers):
    answer = revoke(http, headers=headers, fence=lease.fence)

    assert (answer.status_code, held(client)) == (403, True)


def test_a_form_of_another_page_cannot_be_a_request(http, client, lease):
    body = json.dumps({"name": "orders:42", "reason": "x", "fence": lease.fence})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = http.post(
            "/api/revoke", content=body, headers=bearer(TOKEN) | {"Content-Type": kind}
        )
        assert (answer.status_code, held(client)) == (415, True)


def test_a_holder_that_the_page_did_not_show_keeps_its_lock(http, client, lease):
    answer = revoke(http, fence=lease.fence - 1)

    assert (answer.status_code, held(client)) == (409, True)
    assert "look again" in answer.json()["error"]


def test_nothing_can_be_revoked_by_reading(http, client, lease):
    assert http.get("/api/revoke", headers=bearer(TOKEN)).status_code == 405
    assert held(client)


WRONG = [
    ({"reason": " "}, "reason must be"),
    ({"reason": "x" * 201}, "reason must be"),
    ({"reason": 7}, "reason must be"),
    ({"name": ""}, "name must be"),
    ({"name": "orders~record"}, "derived keys"),
    ({"fence": "7"}, "fence must be"),
    ({"fence": True}, "fence must be"),
    ({"only": "host:1"}, "only must be"),
    ({"only": {"host": "h"}}, "pid must be"),
]


@pytest.mark.parametrize(("body", "complaint"), WRONG)
def test_a_wrong_request_is_told_what_would_be_right(http, client, lease, body, complaint):
    answer = revoke(http, **({"fence": lease.fence} | body))

    assert (answer.status_code, held(client)) == (400, True)
    assert complaint in answer.json()["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * BODY_BYTES_MAX])
def test_a_body_that_is_no_object_is_refused(http, body):
    headers = bearer(TOKEN) | {"Content-Type": "application/json"}

    assert http.post("/api/revoke", content=body, headers=headers).status_code == 400


def test_a_body_without_end_is_not_read(http):
    headers = bearer(TOKEN) | {"Content-Type": "application/json"}
    parts = (b"x" * BODY_BYTES_MAX for _ in range(3))

    assert http.post("/api/revoke", content=parts, headers=headers).status_code == 413
