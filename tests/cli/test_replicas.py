"""``fencelock run --replicas``: the command runs once the grant was acknowledged."""

import pytest

from tests.cli.conftest import _shell
from tests.replication import replicated


@pytest.fixture(scope="module")
def pair():
    with replicated() as servers:
        yield servers


@pytest.fixture
def shell(tmp_path, pair, compiled):
    lent = _shell(tmp_path, pair[0].url, compiled)
    yield lent
    lent.close()
    pair[1].resume()


@pytest.mark.parametrize("command", [("run", "x"), ("once", "y", "--within", "1h")])
def test_an_acknowledged_grant_runs_the_command(shell, command):
    assert shell(*command, "--replicas", "1", "--", "sh", "-c", "exit 0").status == 0


@pytest.mark.parametrize("command", [("run", "x"), ("once", "z", "--within", "1h")])
def test_an_unacknowledged_grant_runs_nothing(shell, pair, tmp_path, command):
    pair[1].pause()
    few = ("--replicas", "1", "--replicas-timeout", "200ms")
    result = shell(*command, *few, "--", "touch", tmp_path / "ran")
    assert result.status == 69
    assert "0 of 1 replica(s) acknowledged" in result.err
    assert "hint: the master has too few replicas that keep up" in result.err
    assert not (tmp_path / "ran").exists()
    assert not shell("show", command[1], "--json").json["held"]
