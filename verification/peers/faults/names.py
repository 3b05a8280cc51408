"""Names with braces, on a plain server and on one in Cluster mode."""

from __future__ import annotations

from verification.peers.faults import LONG, fault
from verification.peers.libraries import Use
from verification.peers.seen import Seen
from verification.peers.stage import Stage, until

NAMES = ("a{b}c", "}x", "{a}b{c}", "{}", "{")
CLUSTER = ("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
SLOTS = 16384


@fault("Names with braces")
def braces(stage: Stage) -> Seen:
    return _named(stage)


@fault("The same on a server in Cluster mode that has all slots", args=CLUSTER)
def braces_in_cluster(stage: Stage) -> Seen:
    if "cluster_state:ok" not in stage.server.command("CLUSTER", "INFO"):
        stage.server.command("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
        until(lambda: "cluster_state:ok" in stage.server.command("CLUSTER", "INFO"), 5.0)
    return _named(stage)


def _named(stage: Stage) -> Seen:
    """Acquire, be refused, release, acquire by the other: with each name."""
    seen = Seen()
    mine, other = stage.user("holder", Use(LONG)), stage.user("rival", Use(LONG))
    for name in NAMES:
        one = stage.another(mine, Use(LONG), name)
        two = stage.another(other, Use(LONG), name)
        steps = [one.tell("acquire"), two.tell("acquire"), one.tell("release"), two.tell("acquire")]
        two.tell("release")
        error = next((step["error"] for step in steps if "error" in step), "")
        seen.remark = seen.remark or error
        seen.violation |= bool(steps[0].get("result") and steps[1].get("result"))
        seen.wrong |= not error and not (steps[0].get("result") and steps[3].get("result"))
    return seen
