"""The rules for alerts and the dashboard for Grafana: each can be loaded, and names what exists.

``promtool``, which Debian has in its package ``prometheus``, checks the rules, and that each alert
fires when it should, and not when all is well.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fencelock.dashboard.board import METRICS
from fencelock.instrumentation import prometheus_hook

yaml = pytest.importorskip("yaml")
prometheus_client = pytest.importorskip("prometheus_client")

ROOT = Path(__file__).resolve().parents[3]
ALERTS = ROOT / "docs" / "alerts"
RULES = ALERTS / "fencelock-rules.yml"
PAGE = ROOT / "docs" / "how-to" / "alerts.md"
ENDINGS = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum"),
}


def exported():
    """Return the name of each series that the hook and the dashboard can export."""
    registry = prometheus_client.CollectorRegistry()
    prometheus_hook(registry=registry).hook()
    hook = {f"{each.name}{end}" for each in registry.collect() for end in ENDINGS[each.type]}
    return hook | METRICS.keys()


def named_in(text):
    return set(re.findall(r"\bfencelock_\w+", text))


def rules():
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels():
    return json.loads((ALERTS / "grafana-dashboard.json").read_text())["panels"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_names_metrics_that_exist_and_says_what_it_means(rule):
    assert named_in(rule["expr"])
    assert named_in(rule["expr"]) - exported() == set()
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description"}
    assert f"| `{rule['alert']}` |" in PAGE.read_text()


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_names_metrics_that_exist(panel):
    for target in panel.get("targets", []):
        assert named_in(target["expr"]) - exported() == set()
        assert named_in(target["expr"])
        assert target["datasource"]["uid"] == "${datasource}"
    assert panel["type"] == "row" or (panel["description"] and panel["targets"])


def test_the_variables_of_the_dashboard_exist():
    told = json.loads((ALERTS / "grafana-dashboard.json").read_text())
    used = set(re.findall(r"\$\{?([a-z_]+)\b", json.dumps(told["panels"]))) - {"__rate_interval"}

    assert used == {each["name"] for each in told["templating"]["list"]}


def test_every_metric_of_the_hook_and_the_dashboard_is_somewhere():
    """What is measured is worth a look; recalls and the time of a look concern few."""
    shown = named_in(RULES.read_text() + json.dumps(panels()))
    families = {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in exported()}
    left_out = {"fencelock_recalls", "fencelock_server_look_seconds"}

    assert {
        re.sub(r"_(bucket|count|sum|total)$", "", name) for name in shown
    } == families - left_out


# --- with promtool --------------------------------------------------------------------------------

TEMPLATE = 'template="order:{id}",object="lock",job="shop",instance="web1"'
# Alert → series that fire it, a value a minute, beside the same that do not.
CASES = {
    "FencelockLeaseLost": [
        ({f'fencelock_lost_total{{{TEMPLATE},reason="expired"}}': "_x12 1x30"}, True),
        ({f'fencelock_lost_total{{{TEMPLATE},reason="expired"}}': "0x10 1x30"}, True),
        ({f'fencelock_lost_total{{{TEMPLATE},reason="closed"}}': "0x10 1x30"}, False),
        ({f'fencelock_lost_total{{{TEMPLATE},reason="expired"}}': "3x40"}, False),
    ],
    "FencelockDeadlock": [
        ({f"fencelock_deadlocks_total{{{TEMPLATE}}}": "_x12 1x30"}, True),
        ({f"fencelock_deadlocks_total{{{TEMPLATE}}}": "2x40"}, False),
    ],
    "FencelockWaitsLong": [
        (
            {
                f'fencelock_wait_seconds_bucket{{{TEMPLATE},outcome="granted",le="{le}"}}': values
                for le, values in (("1", "0+1x40"), ("10", "0+60x40"), ("+Inf", "0+60x40"))
            },
            True,
        ),
        (
            {
                f'fencelock_wait_seconds_bucket{{{TEMPLATE},outcome="granted",le="{le}"}}': "0+9x40"
                for le in ("1", "10", "+Inf")
            },
            False,
        ),
    ],
    "FencelockTimeouts": [
        (
            {
                f"fencelock_timeouts_total{{{TEMPLATE}}}": f"0+{timeouts}x40",
                f'fencelock_wait_seconds_count{{{TEMPLATE},outcome="granted"}}': "0+100x40",
            },
            timeouts > 5,
        )
        for timeouts in (10, 2)
    ],
    "FencelockWaitersPileUp": [
        ({f"fencelock_waiters{{{TEMPLATE}}}": f"{waiters}x40"}, waiters > 100)
        for waiters in (150, 50)
    ],
    "FencelockRenewalsFail": [
        ({f"fencelock_renewal_failures_total{{{TEMPLATE}}}": "0+2x40"}, True),
        ({f"fencelock_renewal_failures_total{{{TEMPLATE}}}": "2x40"}, False),
    ],
    "FencelockServerSilent": [({"fencelock_server_up": f"{up}x40"}, not up) for up in (0, 1)],
    "FencelockWaitStuck": [
        ({"fencelock_server_longest_wait_seconds": f"{wait}x40"}, wait > 300) for wait in (400, 9)
    ],
    "FencelockHeldLong": [
        (
            {
                "fencelock_server_longest_hold_seconds": "4000x40",
                "fencelock_server_waiters": f"{waiters}x40",
            },
            waiters > 0,
        )
        for waiters in (2, 0)
    ],
    "FencelockCycle": [
        ({"fencelock_server_cycle_clients": f"{clients}x40"}, clients > 0) for clients in (2, 0)
    ],
}


@pytest.fixture
def promtool():
    """Lend what runs promtool; it fails with what promtool printed."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed on this machine")

    def run(*args):
        done = subprocess.run(
            ["promtool", *args], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def test_prometheus_accepts_the_rules(promtool):
    promtool("check", "rules", str(RULES))


def test_each_alert_has_a_case():
    assert CASES.keys() == {rule["alert"] for rule in rules()}
    assert all({fires for _, fires in cases} == {True, False} for cases in CASES.values())


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_when_it_should(promtool, tmp_path, alert):
    tests = [case(alert, series, fires) for series, fires in CASES[alert]]
    told = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(told))

    promtool("test", "rules", str(tmp_path / "test.yml"))


def case(alert, series, fires):
    """Return one test as promtool reads it: how many alerts fire after 18 minutes."""
    given = [{"series": name, "values": values} for name, values in series.items()]
    count = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
    samples = [{"labels": "{}", "value": 1 if fires else 0}]
    expected = [{"expr": count, "eval_time": "18m", "exp_samples": samples}]
    return {"interval": "1m", "input_series": given, "promql_expr_test": expected}
