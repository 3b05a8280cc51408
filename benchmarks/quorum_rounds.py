"""Count what a quorum of five costs: rounds of votes and commands per acquisition.

    python -m benchmarks.quorum_rounds [seconds]

Contenders are processes of their own as far as the servers can tell: a client each, in threads. A
round is one try to get a majority; 1.00 means that votes are never split.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import fencelock
from fencelock._core.quorum.acquire import QuorumAttempt
from tests.topologies.quorum import Quorum

CONTENDERS = (1, 2, 5, 20)
SECONDS = 2.0
NODES: dict[str, Callable[[Quorum], object]] = {
    "all well": Quorum.commandstats,
    "one frozen": lambda servers: servers.pause(2),
    "one dead": lambda servers: servers.kill(2),
}
SCRIPTS = ("evalsha", "eval")


class Rounds:
    """Counts the rounds of all clients of this process."""

    def __init__(self) -> None:
        self.number = 0
        succeed, lock = QuorumAttempt.succeed, threading.Lock()

        def counted(race: QuorumAttempt) -> None:
            with lock:
                self.number += race.rounds
            succeed(race)

        QuorumAttempt.succeed = counted  # type: ignore[method-assign]  # to count is all we are here for


def contend(servers: Quorum, number: int, seconds: float) -> list[float]:
    """Let so many clients take one lock in turn; return how long each acquisition took."""
    until = time.monotonic() + seconds
    waits: list[float] = []

    def work() -> None:
        with fencelock.Client(servers.url) as client:
            lock = client.lock("bench", ttl=10)
            while time.monotonic() < until:
                began = time.monotonic()
                with lock:
                    waits.append(time.monotonic() - began)

    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(waits)


def scripts(servers: Quorum, *, frozen: bool) -> int:
    """Return how many scripts the nodes ran that answer; their mean stands for the others."""
    nodes = [node for node in servers.up if not (frozen and node is servers.nodes[2])]
    counts = [sum(node.commandstats().get(name, 0) for name in SCRIPTS) for node in nodes]
    return sum(counts)


def main() -> None:
    """Print the table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    rounds = Rounds()
    print("| nodes | contenders | acquisitions/s | rounds each | commands each | longest wait, s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for state, bring_about in NODES.items():
        for number in CONTENDERS:
            with Quorum() as servers:
                contend(servers, 1, 0.1)
                bring_about(servers)
                before, rounds.number = scripts(servers, frozen=state == "one frozen"), 0
                waits = contend(servers, number, seconds)
                ran = scripts(servers, frozen=state == "one frozen") - before
                servers.resume(*([2] if state == "one frozen" else []))
            each = len(waits)
            print(
                f"| {state} | {number} | {each / seconds:.0f} | {rounds.number / each:.2f} |"
                f" {ran / each:.1f} | {waits[-1]:.2f} |"
            )


if __name__ == "__main__":
    main()
