"""The benchmarks run and tell what they found; how fast anything is, no test says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Server

RUN = Path(__file__).resolve().parent.parent / "benchmarks" / "run.py"
RUN_SECONDS = 50
CASES = ("uncontended-threads", "cli-startup")
FIELDS = {
    "case",
    "unit",
    "ours",
    "floor",
    "peers",
    "ratio_to_floor",
    "ratio_to_best_peer",
    "target",
    "met",
    "absent",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a quick run of the cheap cases writes; peers need not be installed."""
    folder = tmp_path_factory.mktemp("benchmarks")
    file = folder / "told.json"
    with Server() as server:
        ran = run("--only", ",".join(CASES), "--json", file, "--url", server.tcp_url, cwd=folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(file.read_text())


def run(*args, cwd=None):
    return subprocess.run(
        [sys.executable, RUN, "--quick", *args],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


def test_every_case_tells_all_that_is_promised(told):
    assert [row["case"] for row in told["cases"]] == list(CASES)
    for row in told["cases"]:
        assert row.keys() >= FIELDS
        assert row["ours"] > 0
        assert row["floor"] > 0
        assert row["ratio_to_floor"] > 0
        assert isinstance(row["met"], bool)


def test_a_peer_takes_part_or_is_told_with_the_reason(told):
    threads = told["cases"][0]
    known = {"redis-py", "python-redis-lock", "pottery", "redlock-ng", "walrus", "sherlock", "tooz"}

    assert threads["peers"].keys() | threads["absent"].keys() == known | {"aioredlock", "coredis"}
    assert threads["absent"]["coredis"] == "asyncio only"
    assert all(threads["absent"].values())


def test_an_unknown_case_is_refused():
    ran = run("--only", "nothing")

    assert ran.returncode == 1
    assert "no such case: nothing" in ran.stderr
