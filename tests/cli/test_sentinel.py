"""The commands over a service behind Sentinels."""

import os

import pytest

from tests.cli.shell import FENCELOCK, Shell
from tests.topologies.sentinel import SentinelTopology

pytestmark = [pytest.mark.slow, pytest.mark.sentinel]


@pytest.fixture(scope="module")
def servers():
    with SentinelTopology() as running:
        yield running


@pytest.fixture
def shell(servers, tmp_path):
    """Lend a shell whose server is the one that the Sentinels name."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("FENCELOCK_")}
    lent = Shell(tmp_path, env | {"FENCELOCK_URL": servers.url, "FENCELOCK_EMBEDDED": "0"})
    yield lent
    lent.close()


def test_a_lock_is_held_shown_and_given_back(shell, servers):
    told = shell("run", "a", "--", *FENCELOCK, "show", "a")
    assert told.status == 0, told
    assert "held" in told.out
    assert shell("ls").status == 0
    assert servers.command("GET", "fencelock:a") is None


def test_a_holder_of_the_shell_survives_a_failover(shell, servers):
    holder = shell("acquire", "b", "--ttl", "60s", "--json").json["holder"]
    servers.fail_over()
    assert shell("show", "b", "--json").json["holder"]["unit"] == "acquire"
    assert shell("release", "b", "--holder", holder).status == 0


def test_doctor_tells_what_the_sentinels_say(shell, servers):
    out = shell("doctor").out
    assert f"OK    sentinels    3 of 3 answer: 127.0.0.1:{servers.master.port}" in out
    silent = servers.sentinels[0]
    silent.pause()
    try:
        assert "WARN  sentinels    2 of 3 answer" in shell("doctor").out
    finally:
        silent.resume()


def test_a_service_that_nobody_knows_is_told(shell, servers):
    told = shell("run", "c", "--url", servers.url.replace("/locks/", "/other/"), "--", "true")
    assert told.status not in {0, 75}
    assert "service" in told.err
