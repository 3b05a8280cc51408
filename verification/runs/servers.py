"""The servers of a run, and what can befall them.

A kind of servers has a ``url`` for clients (or several, with spaces between), the name of the
``play`` that clients play there (see objects.py), ``faults()`` of its own, ``orphans()`` after all
clients ended, and is a context manager. All kinds stand in topologies.py.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

from tests.faults.proxy import Proxy
from tests.servers import Refused, Server, ServerBinary
from verification.runs import shims
from verification.runs.fault import Fault
from verification.runs.network import Network, Span
from verification.runs.objects import PLAYS
from verification.runs.several import left_on

# Clock rates that the drift allowance of 1 % covers, and one that it does not.
RATES, WRONG_RATE = (0.995, 1.0, 1.005), 10.0
BUSY = "local s = os.clock() while os.clock() - s < tonumber(ARGV[1]) do end"


class OneServer:
    """A single server behind a proxy; ``durability`` is "none", "everysec" or "always"."""

    play = "usual"

    def __init__(self, binary: ServerBinary | None, seed: int, *, durability: str = "none") -> None:
        self._binary = binary
        self._dice = random.Random(seed)
        self._durability = durability
        self._pause = threading.Event()
        self._ends = contextlib.ExitStack()
        self.without = shims.why_not()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            environment: dict[str, str] = {}
            if not self.without:
                self.clock = shims.Clock(folder)
                stack.callback(self.clock.close)
                self.disk = shims.Disk(folder)
                preload = f"{shims.library('clock')} {shims.library('disk')}"
                environment = {"LD_PRELOAD": preload}
                environment |= self.clock.environment | self.disk.environment
            args = ["--lua-time-limit", "100", "--maxmemory-policy", "noeviction"]
            args += ["--appendfsync", self._durability] if self._persistent else []
            args += ["--auto-aof-rewrite-min-size", "4mb"]
            server = Server(
                self._binary, persistent=self._persistent, args=args, environment=environment
            )
            self.server = stack.enter_context(server)
            self.proxy = stack.enter_context(Proxy(self.server))
            self.network = Network(self.proxy, self._dice)
            self._ends = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    @property
    def name(self) -> str:
        return str(self.server.binary)

    @property
    def url(self) -> str:
        return self.proxy.url

    @property
    def _persistent(self) -> bool:
        return self._durability != "none"

    def faults(self) -> Iterator[Fault]:
        """Yield what can befall it; what is never wanted together is chosen by the run."""
        yield from self.network.faults()
        yield Fault("kill links", self.kill_links)
        yield Fault("script flush", partial(self._say, "SCRIPT", "FLUSH"))
        yield Fault("freeze server", self.freeze)
        yield Fault("client pause", self.pause_clients)
        yield Fault("slow script", self.be_busy)
        yield Fault("debug sleep", partial(self._say, "DEBUG", "SLEEP", "0.2"))
        yield Fault("no memory", self.run_out_of_memory)
        always = self._durability == "always"
        yield Fault("restart", self.restart, covered=always)
        yield Fault("power loss", self.lose_power, covered=always, why_not=self.without)
        yield Fault("clock rate", self.change_rate, why_not=self.without)
        yield Fault("clock back", self.set_back, why_not=self.without)
        yield Fault("clock forward", self.set_forward, covered=False, why_not=self.without)
        yield Fault("clock far too fast", self.race, covered=False, why_not=self.without)

    # what befalls the server

    def kill_links(self) -> None:
        kind = self._dice.choice(("pubsub", "normal"))
        self._say("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")

    def freeze(self) -> None:
        self.server.pause()
        self._pause.wait(self._dice.choice((0.02, 0.1, 0.5)))
        self.server.resume()

    def pause_clients(self) -> None:
        self._say("CLIENT", "PAUSE", self._dice.choice((50, 300)), "ALL")

    def be_busy(self) -> None:
        """Run a script for longer than the limit: who asks meanwhile is answered BUSY."""
        self._say("EVAL", BUSY, "0", self._dice.choice((0.15, 0.4)))

    def run_out_of_memory(self) -> None:
        self._say("CONFIG", "SET", "maxmemory", "1")
        self._pause.wait(self._dice.choice((0.05, 0.3)))
        self._say("CONFIG", "SET", "maxmemory", "0")

    def restart(self) -> None:
        self.server.kill()
        self._pause.wait(self._dice.choice((0.0, 0.3)))
        self.server.start()

    def lose_power(self) -> None:
        """Stop at once; nothing stays on the disk but what was synced."""
        self.server.kill()
        self.disk.lose(self.server.directory)
        self.server.start()

    def change_rate(self) -> None:
        self.clock.go(self._dice.choice(RATES))

    def set_back(self) -> None:
        self.clock.jump(-self._dice.choice((0.05, 0.5)))

    def set_forward(self) -> None:
        self.clock.jump(self._dice.choice((2.0, 60.0)))

    def race(self) -> None:
        self.clock.go(WRONG_RATE)
        self._pause.wait(1.0)
        self.clock.go(1.0)

    def _say(self, *words: object) -> None:
        with contextlib.suppress(Refused):  # another fault holds it up, or it died of this one
            self.server.command(*words)

    # afterwards

    def doubts(self) -> list[Span]:
        """Return when a request may have run again that its client had got an answer to."""
        return self.network.doubts()

    def calm(self) -> None:
        """End what lasts."""
        self.proxy.forget()
        self.proxy.heal()
        if not self.without:
            self.clock.go(1.0)

    def orphans(self) -> list[str]:
        """Return what is held or waited for by nobody, and keys that would stay for ever."""
        return left_on(self.server, PLAYS[self.play])

    def sample(self) -> dict[str, Any]:
        """Return how many clients it has but us, and what memory it takes."""
        clients = int(self.server.info("clients")["connected_clients"]) - 1
        memory = self.server.info("memory")
        return {
            "connections": clients,
            "memory_kb": int(memory["used_memory"]) // 1024,
            "keys": self.server.command("DBSIZE"),
        }
