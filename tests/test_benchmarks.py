"""The benchmarks run and tell what they found; how fast anything is, no test says."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Server

RUN = Path(__file__).resolve().parent.parent / "benchmarks" / "run.py"
RUN_SECONDS = 170  # a hang; what it takes on a busy machine is less
CAPACITY_SECONDS = 180
WHERE = ("on Sentinel", "on a Cluster")
CASES = ("uncontended-threads", "cli-startup")
PEERS = ("redis-py", "python-redis-lock", "pottery", "redlock-ng", "walrus", "sherlock", "tooz")
PEERS += ("aioredlock", "coredis", "redis-fifo-lock", "portalocker")
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
        words = ["--only", ",".join(CASES), "--peers", ",".join(PEERS), "--json", file]
        ran = run(*words, "--url", server.tcp_url, cwd=folder)
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


@pytest.mark.slow  # it runs three cases
def test_every_case_tells_all_that_is_promised(told):
    cases = ["uncontended-threads", "uncontended-threads, our bytes", "cli-startup"]
    assert [row["case"] for row in told["cases"]] == cases
    assert all(told["about"][key] for key in ("cpu", "build", "floor, threads", "floor, asyncio"))
    for row in told["cases"]:
        assert row.keys() >= FIELDS
        assert row["ours"] > 0
        assert row["floor"] > 0
        assert row["ratio_to_floor"] > 0
        assert isinstance(row["met"], bool)


@pytest.mark.slow  # it runs three cases
def test_a_peer_takes_part_or_is_told_with_the_reason(told):
    threads = told["cases"][0]

    assert threads["peers"].keys() | threads["absent"].keys() == {*PEERS}
    assert threads["absent"]["coredis"] == "asyncio only"
    assert all(threads["absent"].values())


@pytest.mark.nightly
def test_what_no_peer_has_is_told_beside_our_lock(tmp_path):
    file = tmp_path / "told.json"
    cases = "semaphore,rwlock-read,server-cost,elsewhere,far,far-quorum-5"
    ran = run("--only", cases, "--json", file, "--peers", "", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = {row["case"]: row for row in json.loads(file.read_text())["cases"]}
    for case in ("semaphore", "rwlock-read"):
        assert rows[case]["met"] is None
        assert rows[case]["details"]["x our lock"] > 0
    for case in (
        *("server-cost of a semaphore", "server-cost of a reader"),
        *(f"a pair {where}, {face}" for where in WHERE for face in ("threads", "asyncio")),
    ):
        assert isinstance(rows[case]["met"], bool)
        assert rows[case]["floor"] > 0
    assert {row["ratio_to_floor"] > 0 for row in rows.values()} == {True}
    for case, ours, floor in (("far-threads", 2, "floor"), ("far-quorum-5", 3, "five sockets")):
        assert rows[case]["details"]["round trips"] == {"fencelock": ours, floor: 2}


@pytest.mark.nightly
def test_cohorts_are_told_beside_the_strict_form(tmp_path):
    file = tmp_path / "told.json"
    ran = run("--only", "cohort-2p8t,worst-delay", "--json", file, "--peers", "", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = {row["case"]: row for row in json.loads(file.read_text())["cases"]}
    assert rows["cohort-2p8t"]["details"]["x strict"] > 0
    assert rows["cohort-2p8t"]["details"]["mutual exclusion broken, times"] == {}
    longest = rows["fairness of cohort-2p8t"]["details"]["longest from a turn to the next"]
    assert longest.keys() == {"fencelock", "fencelock strict", "token list"}
    for case in ("worst-delay", "worst-delay, 2 threads"):
        assert isinstance(rows[case]["met"], bool)
        assert rows[case]["details"].keys() >= {"cohort", "strict", "longer"}


@pytest.mark.nightly
def test_without_java_the_rows_beside_redisson_say_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "told.json"

    ran = run("--only", "java-pair", "--json", file, "--peers", "", cwd=tmp_path)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    (row,) = json.loads(file.read_text())["cases"]
    assert row["absent"] == {"Redisson": "this machine has no java"}
    assert row["ours"] > 0


def test_the_lines_that_look_for_hooks_are_where_the_benchmark_leaves_them_out(monkeypatch):
    monkeypatch.syspath_prepend(str(RUN.parent))
    hooks = importlib.import_module("hooks")
    with hooks.stripped():
        pass


@pytest.mark.nightly
def test_the_account_of_a_pair_a_turn_and_a_handoff_adds_up(tmp_path):
    """Each column is printed beside that of the tree before, and its rows are all of its time."""
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    where = [sys.executable, RUN.parent / "where.py", "--seconds", "0.5", "--json"]
    for more in ([before], [after, "--before", before]):
        ran = subprocess.run(
            [*where, *more], capture_output=True, text=True, timeout=RUN_SECONDS, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    tables = ran.stdout.strip().split("\n\n")
    assert len(tables) == 3
    for table in tables:
        head, _, *rows = ([*map(str.strip, row.split("|")[1:-1])] for row in table.splitlines())
        assert head[1:] == [
            *("threads, before", "threads, after", "asyncio, before", "asyncio, after")
        ]
        cells = {name: [float(cell or 0) for cell in told] for name, *told in rows}
        clock, total = cells.pop("by the clock"), cells.pop("**all**")
        assert cells.keys() >= {"the server", "the event loop", "Python, the rest"}
        for column, shown in enumerate(total):
            parts = sum(told[column] for told in cells.values())
            assert parts == pytest.approx(shown, abs=0.05 * (len(cells) + 1))
            assert 0 < shown < clock[column] * 1.2


def test_an_unknown_case_is_refused():
    ran = run("--only", "nothing")

    assert ran.returncode == 1
    assert "no such case: nothing" in ran.stderr


# --- capacity -------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_capacity_measures_everything_that_its_page_tells(tmp_path):
    file = tmp_path / "told.json"
    ran = subprocess.run(
        [sys.executable, RUN.parent / "capacity.py", "--quick", "--json", file],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=CAPACITY_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads(file.read_text())
    assert told["commands"]["lock: acquire, release"] == "2 evalsha"
    assert told["commands"]["semaphore: acquire, release"] == "2 evalsha"
    assert told["commands"]["rwlock: write, release"] == "2 evalsha"
    measured = told["measured"]
    assert measured.pop("renewals_lost") == 0
    assert {name: value for name, value in measured.items() if value <= 0} == {}
    page = (RUN.parent.parent / "docs" / "explanation" / "capacity.md").read_text()
    for line in ran.stdout.splitlines():  # what is printed is what the page shows
        if line.startswith("| ") and "---" not in line:
            assert f"\n{line.partition(' | ')[0]} | " in page


@pytest.mark.slow
def test_two_thousand_locks_are_held_on_a_cluster_and_none_is_lost(tmp_path):
    words = ["--locks", "2000", "--ttl", "6", "--ttls", "1", "--plot", tmp_path / "told.svg"]
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.million", *words],
        cwd=RUN.parent.parent,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    cells = [cell.strip() for cell in ran.stdout.splitlines()[-1].split("|")]
    assert cells[1] == "2,000"
    assert cells[-2] == "0"
    assert "<svg" in (tmp_path / "told.svg").read_text()


def test_the_plan_is_arithmetic():
    """One masters' worth of each is one master; double the cost of what binds doubles them."""
    sys.path.insert(0, str(RUN.parent))
    try:
        plan = importlib.import_module("capacity_plan")
    finally:
        sys.path.remove(str(RUN.parent))
    found = {key: 1.0 for _, key, _ in plan.ROWS}
    assert {masters for *_, masters in plan.plan(found)} == {1}
    found["pair_us_single"] = found["handoff_us"] = plan.LOAD / plan.RATE * 1e6 * 7
    needs = {what: masters for what, _, _, masters in plan.plan(found)}
    assert needs["acquisitions, seconds of a core a second"] == 7
