"""The dashboard over every kind of servers, and over the one that starts by itself."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

import pytest

import fencelock
from tests.integrations.dashboard.conftest import TOKEN, Running, until
from tests.topologies import TOPOLOGIES

pytest.importorskip("starlette.testclient")
pytest.importorskip("uvicorn")

pytestmark = pytest.mark.slow
KINDS = [each for each in TOPOLOGIES if each.name in {"sentinel", "cluster", "quorum"}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_locks_are_shown_and_revoked_on(kind, make_http):
    with contextlib.closing(kind.start()) as servers:
        http = make_http(servers.url, token=TOKEN)
        with fencelock.Client(servers.url, label="shop") as client:
            locks = [client.lock(name) for name in ("one", "two", "{three}")]
            for lock in locks:
                assert lock.acquire()
            rows = until(lambda: (r := rows_of(http)).keys() == {"one", "two", "{three}"} and r)
            one = http.get("/api/lock?name=one").json()["status"]

            assert {row["holder"]["label"] for row in rows.values()} == {"shop"}
            body = {"name": "one", "reason": "down", "fence": one["fence"]}
            headers = {"Authorization": f"Bearer {TOKEN}"}
            assert http.post("/api/revoke", json=body, headers=headers).status_code == 200
            until(lambda: rows_of(http).keys() == {"two", "{three}"})
            with pytest.raises(fencelock.LeaseLost, match="down"):
                locks[0].release()
            for lock in locks[1:]:
                lock.release()


def rows_of(http):
    return {row["name"]: row for row in http.get("/api/board").json()["locks"]}


def test_without_a_url_it_shows_the_embedded_server():
    with tempfile.TemporaryDirectory(prefix="fl-", ignore_cleanup_errors=True) as folder:
        environment = {"FENCELOCK_DIR": folder, "FENCELOCK_EMBEDDED": "1"}
        with contextlib.closing(Running(None, **environment)) as dashboard:
            program = (
                "import fencelock, sys, urllib.request as web\n"
                "with fencelock.Client().lock('mine'):\n"
                "    print(web.urlopen(sys.argv[1] + 'api/board').read().decode())\n"
                "from fencelock import embedded\n"
                "embedded.stop()\n"
            )
            done = subprocess.run(
                [sys.executable, "-c", program, dashboard.url],
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
                env=os.environ | environment,
            )

    assert [row["name"] for row in json.loads(done.stdout)["locks"]] == ["mine"]
