"""Real servers in the place of simulated ones, so that a schedule can be replayed on them.

Rules of this file:

- The processes, their clocks and the network stay those of the schedule. What runs a command, keeps
  keys, ends them by its clock, restarts or is promoted is a real server.
- The simulated server runs beside it. Every answer and every living key must be the same on both;
  what differs is noted. Only instants, which differ by nature, are left out.
- When the schedule lets time pass, we wait for the server's own clock to get there, and for the
  keys that should be gone by then to be gone.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests import servers
from verification.ladder.clocks import ShiftedServer
from verification.ladder.follower import Follower
from verification.ladder.rung import Break
from verification.simulator.hashes import Hash
from verification.simulator.keyspace import NEVER, Value
from verification.simulator.server import EPOCH_US, Outcome, Refusal, Request, Server, hashable

WAIT_SECONDS = 5.0
# A real key that ends within this may be gone already: real commands take some time.
ABOUT_MS = 50


class Actual(Server):
    """A real server that is used like a simulated one."""

    def __init__(
        self, sources: Mapping[str, bytes], how: Break, binary: servers.ServerBinary | None
    ) -> None:
        self.real: servers.Server | None = None
        self.follower: Follower | None = None
        self.differences: list[str] = []
        self._zero_us = 0  # the real clock at the beginning of the schedule
        super().__init__(sources, cluster=how.cluster, replicated=how.replicated)
        self._texts = {name: each.source for name, each in self._programs.items()}
        jumps = bool(how.faults.get("jump"))
        self.real = ShiftedServer(binary) if jumps else servers.Server(binary, args=arguments(how))
        self.real.__enter__()
        if how.cluster:
            self.real.command("CLUSTER", "ADDSLOTS", *range(16384))
            self._until(lambda: "cluster_state:ok" in self._ask("CLUSTER", "INFO"), "the Cluster")
        if how.replicated:
            self.follower = Follower(self.real, binary)

    def close(self) -> None:
        """End it, and its replica."""
        for each in (self.follower, self.real):
            if each is not None:
                each.close()

    # -- what the simulation does with a server -------------------------------------------------

    def reset(self) -> None:
        """Begin again, empty."""
        super().reset()
        self.differences.clear()
        self._instants: dict[bytes | int, bytes] = {}  # what the real server told → the simulated
        if self.real is not None:
            self.real.flushall()
            self._zero_us = self._time_us()
            if self.follower is not None:
                self.follower.catch_up()

    def run(self, request: Request) -> Outcome:
        """Run a request on both; the real one's answer counts."""
        outcome = super().run(self._in_simulated_instants(request))
        reply = self._real_reply(request)
        self._instants.update(zip(instants(reply), instants(outcome.reply), strict=False))
        if masked(reply) != masked(outcome.reply):
            self.differences.append(f"{request!r}: {reply!r}, simulated {outcome.reply!r}")
        self._same_keys(0.0)
        return outcome._replace(reply=reply)

    def _in_simulated_instants(self, request: Request) -> Request:
        """Return the request with the instants that the simulated server has told."""
        args = tuple(self._instants.get(arg, arg) for arg in request.args)
        return Request(request.name, request.keys, args)

    def _real_reply(self, request: Request) -> Any:
        source = self._texts.get(request.name)
        words: tuple[Any, ...] = request.args
        if source is not None:
            words = ("EVAL", source, len(request.keys), *request.keys, *request.args)
        try:
            return as_bytes(self._ask(*words))
        except servers.Refused as error:
            return Refusal(str(error))

    def living(self) -> dict[bytes, tuple[Value, int]]:
        """Return what the real server holds; when it ends is told in the schedule's time."""
        simulated = super().living()
        found: dict[bytes, tuple[Value, int]] = {}
        for name in self._ask("KEYS", "*"):
            key = name.encode()
            end = NEVER if self._ask("PTTL", name) == -1 else self.now_us // 1000
            if key in simulated and (end == NEVER) == (simulated[key][1] == NEVER):
                end = simulated[key][1]
            found[key] = (self._value(name), end)
        return found

    def _value(self, name: str) -> Value:
        kind = self._ask("TYPE", name)
        if kind == "hash":
            flat = as_bytes(self._ask("HGETALL", name))
            return Hash(zip(flat[::2], flat[1::2], strict=True))
        return as_bytes(self._ask("GET", name)) if kind == "string" else ()

    def forget(self) -> None:
        """Restart it, with nothing."""
        super().forget()
        self._server.kill()
        self._server.start()

    def copy(self) -> None:
        """Let the replica get everything."""
        super().copy()
        if self.follower is not None:
            self.follower.catch_up()

    def fail_over(self) -> None:
        """Kill the master and promote its replica."""
        super().fail_over()
        if self.follower is not None:
            self._server.close()
            self.real, self.follower = self.follower.promote(), None

    # -- time -----------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """Return the schedule's clock; to set it is to wait until the real one gets there."""
        return self._now_us

    @now_us.setter
    def now_us(self, instant: int) -> None:
        before = getattr(self, "_now_us", instant)
        self._now_us = instant
        if self.real is None or instant <= before:
            return
        if isinstance(self.real, ShiftedServer):
            self.real.shift(self.skew_us)
        self._until(lambda: self._time_us() - self._zero_us >= instant - EPOCH_US, "the clock")
        self._same_keys(WAIT_SECONDS)

    def _time_us(self) -> int:
        seconds, micros = self._ask("TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def _same_keys(self, seconds: float) -> None:
        """Wait until all keys have ended that should; note it when the two hold other keys."""
        known = {key for key, _ in self.state}
        living = super().living()
        about_ms = self.now_us // 1000 + ABOUT_MS
        staying = {key for key, (_, end) in living.items() if end == NEVER or end > about_ms}
        ended = known - living.keys()
        self._wait(lambda: not self._keys() & ended, seconds)
        have = self._keys()
        if staying - have or have - living.keys():
            self.differences.append(f"keys {sorted(have)}, simulated {sorted(living)}")

    def _keys(self) -> set[bytes]:
        return {name.encode() for name in self._ask("KEYS", "*")}

    def _until(self, state: Any, what: str) -> None:
        if not self._wait(state, WAIT_SECONDS):
            raise TimeoutError(f"{what} did not get there")

    def _wait(self, state: Any, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not state():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)
        return True

    @property
    def _server(self) -> servers.Server:
        assert self.real is not None
        return self.real

    def _ask(self, *words: Any) -> Any:
        return self._server.command(*words)


def arguments(how: Break) -> list[str]:
    """Return the options of a server for such a world."""
    if how.cluster:
        return ["--cluster-enabled", "yes"]
    return ["--repl-diskless-sync-delay", "0"] if how.replicated else []


def as_bytes(reply: Any) -> Any:
    """Return a decoded reply as the simulator has it."""
    if isinstance(reply, str):
        return reply.encode(errors="surrogateescape")
    return hashable([as_bytes(each) for each in reply]) if isinstance(reply, list) else reply


def masked(reply: Any) -> Any:
    """Return a reply without instants, and an error by its code."""
    if isinstance(reply, Refusal):
        return re.findall(r"\b(?:ERR|[A-Z]{6,})\b", reply.message)[-1:]
    if isinstance(reply, tuple):
        return tuple(map(masked, reply))
    if isinstance(reply, int):
        return "instant" if reply > 1e12 else reply
    return reply and re.sub(rb"\d{13,}", b"instant", bytes(reply))


def instants(reply: Any) -> list[bytes]:
    """Return the instants in a reply, in their order."""
    if isinstance(reply, tuple) and not isinstance(reply, Refusal):
        return [each for part in reply for each in instants(part)]
    return re.findall(rb"\d{13,}", reply) if isinstance(reply, bytes) else []


@contextmanager
def actual(
    how: Break, sources: Mapping[str, bytes], binary: servers.ServerBinary | None = None
) -> Iterator[list[Server]]:
    """Lend real servers for a world: the newest at hand unless told otherwise."""
    lent: list[Server] = []
    try:
        for _ in range(how.nodes):
            lent.append(Actual(sources, how, binary))  # noqa: PERF401 - each is closed, should the next one fail
        yield lent
    finally:
        for server in lent:
            server.close()  # type: ignore[attr-defined]  # all are Actual
