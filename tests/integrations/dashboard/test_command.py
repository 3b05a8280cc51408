"""``fencelock dashboard`` as a shell starts it."""

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.integrations.dashboard.conftest import READ_TOKEN, TOKEN

REFUSED = 64

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def get(url, token="", host=None):
    """Return the status and the JSON or text of an answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers | ({"Host": host} if host else {}))
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as wrong:
        with wrong:
            return wrong.code, wrong.read().decode()


def refused(*args, **environment):
    """Return what a command line that cannot be right prints."""
    done = subprocess.run(
        [sys.executable, "-m", "fencelock", "dashboard", *args],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={"PATH": "", **environment},
    )
    assert done.returncode == REFUSED, done.stderr
    return done.stderr


def test_it_listens_on_this_machine_only_and_only_shows(run, client):
    dashboard = run()
    with client.lock("orders:42"):
        status, text = get(f"{dashboard.url}api/board")

    assert dashboard.url.startswith("http://127.0.0.1:")
    assert dashboard.token is None
    assert (status, json.loads(text)["revoke"]) == (200, False)
    assert [row["name"] for row in json.loads(text)["locks"]] == ["orders:42"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(run, number):
    dashboard = run()
    get(f"{dashboard.url}api/board")

    status, errors = dashboard.stop(number)

    assert status in {128 + number, -number}
    assert "Traceback" not in errors


def test_with_allow_revoke_it_makes_a_token(run, client):
    dashboard = run("--allow-revoke")

    assert len(dashboard.token) >= 32
    assert run("--allow-revoke").token != dashboard.token
    assert json.loads(get(f"{dashboard.url}api/board")[1])["revoke"]


def test_a_revocation_is_noted_on_stderr(run, client):
    dashboard = run("--allow-revoke", FENCELOCK_DASHBOARD_TOKEN=TOKEN)
    lock = client.lock("orders:42", renew=False)
    assert lock.acquire()
    body = {"name": "orders:42", "reason": "down", "fence": lock.lease.fence}
    request = urllib.request.Request(
        f"{dashboard.url}api/revoke",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200

    assert "127.0.0.1 revoked 'orders:42': 'down'" in dashboard.stop()[1]
    with pytest.raises(Exception, match="revoked: down"):
        lock.release()


def test_tokens_come_from_files(run, tmp_path):
    (tmp_path / "one").write_text(f"{TOKEN}\n")
    (tmp_path / "two").write_text(READ_TOKEN)
    files = "--token-file", str(tmp_path / "one"), "--read-token-file", str(tmp_path / "two")
    url = f"{run('--allow-revoke', *files).url}api/board"

    assert [get(url, token)[0] for token in ("", READ_TOKEN, TOKEN)] == [401, 200, 200]


def test_what_others_can_reach_needs_a_token_for_reading_too(run):
    dashboard = run("--host", "0.0.0.0", "--allow-host", "locks.example")
    port = dashboard.url.rpartition(":")[2]
    url = f"http://127.0.0.1:{port}api/board".replace("/api", "/api")

    assert dashboard.url == f"http://locks.example:{port}"
    assert get(url, host="locks.example")[0] == 401
    assert get(url, dashboard.token, host="locks.example")[0] == 200
    assert get(url, dashboard.token, host="other.example")[0] == 421
    assert "nothing is encrypted" in dashboard.stop()[1]


def test_a_wildcard_address_needs_the_name_that_is_right():
    assert "--allow-host NAME" in refused("--host", "0.0.0.0")


def test_a_port_that_is_taken_is_said():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        errors = refused("--port", port, "--url", "redis://127.0.0.1:1/0")

    assert f"cannot listen on 127.0.0.1, port {port}" in errors


WRONG = [
    (["--port", "70000"], {}, "is not a port"),
    (["--token-file", "x"], {}, "add --allow-revoke"),
    (["--allow-revoke", "--token-file", "nowhere"], {}, "cannot be read"),
    (["--allow-revoke"], {"FENCELOCK_DASHBOARD_TOKEN": "short"}, "FENCELOCK_DASHBOARD_TOKEN must"),
    (["--allow-host", "http://x"], {}, "without port"),
]


@pytest.mark.parametrize(("args", "environment", "complaint"), WRONG)
def test_a_command_line_that_cannot_be_right_is_refused(args, environment, complaint):
    assert complaint in refused(*args, **environment)


def test_without_the_frameworks_it_says_what_to_install(tmp_path):
    (tmp_path / "uvicorn.py").write_text("raise ImportError('no', name='uvicorn')\n")

    errors = refused("--url", "redis://127.0.0.1:1/0", PYTHONPATH=str(tmp_path))

    assert "uvicorn is not installed" in errors
    assert "install fencelock[dashboard]" in errors


def test_a_server_that_does_not_answer_is_said_at_the_start():
    words = [sys.executable, "-m", "fencelock", "dashboard", "--port", "0"]
    started = subprocess.Popen(
        [*words, "--url", "redis://127.0.0.1:1"], stderr=subprocess.PIPE, text=True
    )
    with started:
        said = [started.stderr.readline() for _ in range(2)]
        started.send_signal(signal.SIGINT)
        started.wait(30)
    assert "cannot connect to redis://127.0.0.1:1/0" in said[1]
