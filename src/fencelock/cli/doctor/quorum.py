"""The questions to a quorum: to all of its nodes together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fencelock._core.quorum.membership import Membership
from fencelock._core.quorum.membership import majority as most_of
from fencelock._runtime.clock import now
from fencelock.cli.doctor.report import Answer, fail, ok, warn
from fencelock.cli.doctor.server import Server
from fencelock.cli.output import human

_TTL: Final = b"ttl"
_WAITS: Final = b"~?"  # before the run id of a node that waits for its vote


class Quorum(NamedTuple):
    """The nodes that answered, and what all are called."""

    nodes: Sequence[Server]
    labels: Sequence[str]


def voting(node: Server) -> Answer:
    """Ask whether clients can see that this node was restarted."""
    lacks = _lacks(node)
    if not lacks:
        return []
    return fail(
        f"this user lacks {' '.join(lacks)}, which show restarts of nodes", "grant the rule below"
    )


def _lacks(node: Server) -> list[str]:
    readable = {"+info": bool(node.info), "+hgetall": node.membership is not None}
    return [right for right, granted in readable.items() if not granted]


def majority(quorum: Quorum) -> Answer:
    """Ask whether enough nodes answer."""
    answering, total = len(quorum.nodes), len(quorum.labels)
    needed = most_of(total)
    found = f"{answering} of {total} nodes answer; {needed} must"
    if answering < needed:
        return fail(found, "repair the others: no lock is granted until then")
    if answering < total:
        spare = answering - needed
        return warn(found, f"repair the others: if more than {spare} more fail, no lock is granted")
    return ok(found)


def independence(quorum: Quorum) -> Answer:
    """Ask whether a server votes twice, or a machine takes the majority with it."""
    named = dict[str, str]()
    for node in quorum.nodes:
        other = named.setdefault(node.info.get("run_id") or node.label, node.label)
        if other != node.label:
            found = f"{other} and {node.label} are the same server, which would vote twice"
            return fail(found, "name different servers")
    total = len(quorum.labels)
    hosts = [urlsplit(label).hostname for label in quorum.labels]
    most = max(hosts, key=hosts.count)
    together = hosts.count(most)
    if together > total - most_of(total):
        found = f"{together} of {total} nodes are on {most or 'this machine'}"
        return warn(found, "use more machines: if that machine fails, no majority is left")
    return ok("the nodes are different servers")


def restarts(quorum: Quorum) -> Answer:
    """Ask which nodes were restarted and may not vote yet."""
    nodes, total = quorum.nodes, len(quorum.labels)
    if any(_lacks(node) for node in nodes):
        return []
    membership, claims = Membership(total), list[list[bytes]]()
    for place, node in enumerate(nodes):
        run_id = node.info.get("run_id", "")
        membership.saw(place, run_id.encode(), node.asked_at)
    for place, node in enumerate(nodes):
        record = dict(node.membership or {})
        longest = int(record.pop(_TTL, 0)) / 1000
        membership.read(place, longest, _known(node, record), now())
        claims += [claim.split() for each, claim in record.items() if each.startswith(b"~")]
    # When a claim ends is said by a node's clock: here it is as long as the lease may be.
    ttls = [int(ttl) / 1000 for _, _, ttl in claims]
    membership.read_claims([(ttl, ttl) for ttl in ttls], now())
    membership.judge()
    instant = now()
    answer: Answer = []
    for place, node in enumerate(nodes):
        if not membership.eligible(place, instant):
            left = human(max(0.0, membership.votes_from(place) - instant))
            found = f"{node.label} was restarted: no vote for another {left} at most"
            change = "wait while clients use the quorum: until no lease is left that it forgot"
            answer += warn(found, change)
    return answer or (ok(f"{len(nodes)} of {total} nodes may vote") if nodes else [])


def _known(node: Server, record: Mapping[bytes, bytes]) -> Iterator[bytes]:
    """Return the run ids in a node's record in the words of ``membership.lua``."""
    seconds, micros = node.command(b"TIME")
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    for each, value in record.items():
        if each.startswith(_WAITS):
            yield b"%b %d" % (each.removeprefix(_WAITS), max(0, now_ms - int(value.split()[1])))
        elif not each.startswith(b"~"):
            yield each
