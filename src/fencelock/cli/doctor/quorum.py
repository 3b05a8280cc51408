"""The checks of a quorum: each node by itself, and all of them together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fencelock._core.keys import membership_key
from fencelock._core.quorum.membership import Membership
from fencelock._core.quorum.votes import majority
from fencelock._runtime.clock import now
from fencelock.cli.doctor.probe import Facts, Probe, number
from fencelock.cli.doctor.report import FAIL, OK, WARN, Finding
from fencelock.cli.output import human
from fencelock.cli.session import Session
from fencelock.errors import FencelockError

_TTL: Final = b"ttl"

CheckServer = Callable[[Session], Iterator[Finding]]


class NodeReport(NamedTuple):
    """What one node reports of itself, and which nodes it remembers."""

    label: str
    info: Facts
    membership: dict[bytes, bytes]
    asked_at: float
    lacks: Sequence[str]

    @property
    def run_id(self) -> bytes:
        """Return the id of this run of the server: another one after a restart."""
        return self.info.get("run_id", "").encode()


def quorum(sessions: Sequence[tuple[str, Session]], check: CheckServer) -> Iterator[Finding]:
    """Check every node as a single server, then all of them together."""
    nodes = []
    for label, session in sessions:
        yield from (each._replace(node=label) for each in check(session))
        try:
            node = _node(label, session)
        except FencelockError:
            continue  # the check of the server reported it
        nodes.append(node)
        yield from _permissions(node)
    yield _majority(len(nodes), len(sessions))
    yield from _apart(nodes, [label for label, _ in sessions])
    if not any(node.lacks for node in nodes):
        yield from _votes(nodes, len(sessions))


def _node(label: str, session: Session) -> NodeReport:
    probe = Probe(session)
    asked_at, info = now(), probe.info()
    found = probe.optional(b"HGETALL", membership_key(session.prefix))
    lacks = [
        right for right, answer in (("+info", info or None), ("+hgetall", found)) if answer is None
    ]
    if isinstance(found, list):  # RESP2
        found = dict(zip(found[::2], found[1::2], strict=True))
    return NodeReport(label, info, found or {}, asked_at, lacks)


def _permissions(node: NodeReport) -> Iterator[Finding]:
    """Check the further permissions that a node's connections need."""
    if node.lacks:
        found = f"this user lacks {' '.join(node.lacks)}, which show restarts of nodes"
        yield Finding(FAIL, "voting", found, "grant the rule below", node.label)


def _majority(answering: int, nodes: int) -> Finding:
    needed = majority(nodes)
    found = f"{answering} of {nodes} nodes answer; {needed} must"
    if answering < needed:
        return Finding(FAIL, "majority", found, "repair the others: no lock is granted until then")
    if answering < nodes:
        change = (
            f"repair the others: if more than {answering - needed} more fail, no lock is granted"
        )
        return Finding(WARN, "majority", found, change)
    return Finding(OK, "majority", found)


def _apart(nodes: Sequence[NodeReport], labels: Sequence[str]) -> Iterator[Finding]:
    """Check that no server votes twice."""
    for place, node in enumerate(nodes):
        for other in nodes[:place]:
            if node.run_id and node.run_id == other.run_id:
                found = (
                    f"{other.label} and {node.label} are the same server, which would vote twice"
                )
                yield Finding(FAIL, "independence", found, "name different servers")
                return
    hosts = [urlsplit(label).hostname for label in labels]
    most = max(hosts, key=hosts.count)
    together = hosts.count(most)
    if together > len(labels) - majority(len(labels)):
        found = f"{together} of {len(labels)} nodes are on {most or 'this machine'}"
        change = "use more machines: if that machine fails, no majority is left"
        yield Finding(WARN, "independence", found, change)
    else:
        yield Finding(OK, "independence", "the nodes are different servers")


def _votes(nodes: Sequence[NodeReport], total: int) -> Iterator[Finding]:
    """Return which nodes were restarted and may not vote yet."""
    membership, claims = Membership(total), list[list[bytes]]()
    for place, node in enumerate(nodes):
        membership.saw(place, node.run_id, number(node.info, "uptime_in_seconds"), node.asked_at)
    for place, node in enumerate(nodes):
        longest = int(node.membership.get(_TTL, 0)) / 1000
        fields = [each for each in node.membership if each != _TTL]
        membership.read(place, longest, (each for each in fields if not each.startswith(b"~")))
        claims += [node.membership[each].split() for each in fields if each.startswith(b"~")]
    # When a claim ends is said by a node's clock: here it is as long as the lease may be.
    ttls = [int(ttl) / 1000 for _, _, ttl in claims]
    membership.read_claims([(ttl, ttl) for ttl in ttls], now())
    membership.judge()
    instant = now()
    for place, node in enumerate(nodes):
        if not membership.eligible(place, instant):
            left = human(max(0.0, membership.votes_from(place) - instant))
            found = f"{node.label} was restarted recently: no vote for another {left}"
            change = "wait: after that time no lease is left that it may have forgotten"
            yield Finding(WARN, "votes", found, change)
    if nodes and all(membership.eligible(each, instant) for each in range(len(nodes))):
        yield Finding(OK, "votes", f"{len(nodes)} of {total} nodes may vote")
