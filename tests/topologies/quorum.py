"""A quorum of five independent servers, which looks like one to a conformance test."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from tests.servers import Runs, Server, ServerBinary

NODES = 5


class Quorum(Runs):
    """Five servers. What is asked of "the server" is asked of all; the first one answers."""

    def __init__(self, nodes: int = NODES) -> None:
        self.nodes = [Server() for _ in range(nodes)]
        self.dead: set[int] = set()

    @property
    def url(self) -> str:
        return ",".join(node.url for node in self.nodes)

    @property
    def binary(self) -> ServerBinary:
        return self.nodes[0].binary

    def start(self) -> Self:
        for node in self.nodes:
            node.start()
        return self

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    # what tests do to some of them

    def kill(self, *numbers: int) -> None:
        """Kill nodes."""
        for number in numbers:
            self.nodes[number].kill()
            self.dead.add(number)

    def pause(self, *numbers: int) -> None:
        """Freeze nodes."""
        for number in numbers:
            self.nodes[number].pause()

    def resume(self, *numbers: int) -> None:
        """Let frozen nodes run on."""
        for number in numbers:
            self.nodes[number].resume()

    @property
    def up(self) -> list[Server]:
        """The nodes that were not killed."""
        return [node for number, node in enumerate(self.nodes) if number not in self.dead]

    def command(self, *words: object) -> Any:
        """Run a command on all nodes and return what most of them say, lists joined for CLIENT."""
        replies = [node.command(*words) for node in self.up]
        if all(isinstance(reply, str) for reply in replies) and words[0] == "CLIENT":
            return "".join(replies)
        if words[0] == "KEYS":
            return sorted({key for reply in replies for key in reply})
        if words[0] == "PTTL":
            return max(replies)
        if words[0] == "ZCARD":  # each line is on one node, that of its lock
            return sum(replies)
        return max(replies, key=replies.count) if words[0] == "GET" else replies[0]

    def flushall(self) -> None:
        self.command("FLUSHALL")

    def info(self, section: str) -> dict[str, str]:
        return self.nodes[0].info(section)

    def commandstats(self) -> dict[str, int]:
        """Return how often each command ran, on all nodes together."""
        total: dict[str, int] = {}
        for node in self.nodes:
            for name, number in node.commandstats().items():
                total[name] = total.get(name, 0) + number
        return total


class Patient(Quorum):
    """A quorum whose nodes are all well: one that does not answer at once is waited for."""

    client_options: ClassVar = {"node_timeout": 1.0}
