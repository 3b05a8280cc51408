"""One run: servers, clients, faults at random by a seed, and what the history shows."""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from fencelock._runtime.clock import now
from tests.servers import Server, ServerBinary
from verification.runs import checker
from verification.runs.crew import Crew
from verification.runs.fault import Fault
from verification.runs.network import GHOST_SECONDS, Span
from verification.runs.objects import PLAYS
from verification.runs.topologies import SERVERS
from verification.runs.verdict import Verdict

# A client gives a connection up after a second without an answer; stalls may add up to that.
STALL_SECONDS = 0.3
BETWEEN_SECONDS = 0.3  # the mean from one fault to the next


class Run:
    """Servers, a register for fenced writes, and clients; ``rage`` as often as wanted."""

    def __init__(
        self,
        servers: str = "one",
        *,
        seed: int,
        faults: Sequence[str] | None = None,
        binary: ServerBinary | None = None,
        lasting: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.kind, self.seed = servers, seed
        self._wanted, self._binary, self._lasting = faults, binary, lasting
        self._environment = environment or {}
        self._dice = random.Random(seed)
        self._pause = threading.Event()
        self._ends = contextlib.ExitStack()
        self.struck: Counter[str] = Counter()
        self.orphans: list[str] = []
        self.statuses: list[int] = []
        self.seconds = 0.0
        self.trace: list[tuple[str, float, float]] = []  # what struck, from when to when

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.servers = stack.enter_context(SERVERS[self.kind](self._binary, self.seed))
            self.register = stack.enter_context(Server())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            addresses = self.servers.url, self.register.url
            self.crew = Crew(
                addresses,
                folder,
                self.seed,
                environment=self._environment,
                lasting=self._lasting,
                play=self.servers.play,
            )
            stack.callback(self.crew.kill_all)
            self.faults, self.not_run = self._choose()
            self.verdict = self._verdict()
            self.crew.ready()
            self._ends = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def rage(self, seconds: float, *, until_seen: bool = False) -> None:
        """Let faults strike at random for so long, or until a proved lease's write was refused."""
        with self._chapter():
            end = now() + seconds
            while now() < end and not (until_seen and self._seen()):
                often = [fault.often for fault in self.faults]
                self.strike(self._dice.choices(self.faults, often)[0])
                self._pause.wait(self._dice.random() * 2 * BETWEEN_SECONDS)

    def each(self) -> None:
        """Let every fault strike once, in a fixed order."""
        with self._chapter():
            for fault in self.faults:
                self.strike(fault)
                self._pause.wait(BETWEEN_SECONDS)

    def _seen(self) -> bool:
        return bool(checker.refused_though_proved(self.crew.collect().writes))

    @contextlib.contextmanager
    def _chapter(self) -> Iterator[None]:
        self._begun = now()
        yield
        self._ended = now()
        self.seconds += self._ended - self._begun
        self.servers.calm()

    def strike(self, fault: Fault) -> None:
        """Let one fault strike."""
        self.struck[fault.name] += 1
        began = now()
        fault.strike()
        self.trace.append((fault.name, began, now()))

    def pause(self, label: str) -> None:
        """Have everybody stand aside, and check what happened so far."""
        self.crew.park(label)
        self._check()

    def finish(self) -> None:
        """Let everybody end what it does, and check the rest."""
        self.statuses = self.crew.finish()
        self._check()

    def _check(self) -> None:
        self.orphans += self.servers.orphans()
        history = self.crew.collect()
        self.verdict.chapter(history, self._begun, self._ended, self._doubts())
        self._begun = self._ended  # what follows is the end, not a time without grants

    def _doubts(self) -> list[Span]:
        """Return when a request may have run that its client had given up and asked again."""
        long = [(began, end) for _, began, end in self.trace if end - began > STALL_SECONDS]
        stalls = [(began, end + GHOST_SECONDS) for began, end in long]
        return [*self.servers.doubts(), *stalls]

    def _verdict(self) -> Verdict:
        covered = all(fault.covered for fault in self.faults)
        return Verdict(covered=covered, play=PLAYS[self.servers.play])

    def _choose(self) -> tuple[list[Fault], dict[str, str]]:
        """Return the faults of this run: those asked for, or all that the guarantees cover."""
        every = [*self.crew.faults(), *self.servers.faults()]
        wanted = self._wanted
        if wanted is None:
            chosen = [fault for fault in every if fault.covered]
        else:
            _known(wanted, every)
            chosen = [fault for fault in every if fault.name in wanted]
        missing = {fault.name: fault.why_not for fault in chosen if fault.why_not}
        return [fault for fault in chosen if not fault.why_not], missing

    # what it found

    def report(self) -> dict[str, Any]:
        """Return all that was counted, in the words of the report."""
        verdict, history = self.verdict, self.crew.history
        return {
            "servers": f"{self.kind}, {self.servers.name}",
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "covered": verdict.covered,
            "operations": history.counts["operations"],
            "grants": verdict.grants,
            "faults": dict(sorted(self.struck.items())),
            "faults not run": self.not_run,
            "overlaps of proved leases": len(verdict.overlaps),
            "fences that went back": len(verdict.fences_back),
            "not linearizable": [f"{on}: {call}" for on, call in verdict.impossible],
            "calls checked": verdict.calls,
            "refusals checked": verdict.refusals,
            "checks given up": verdict.too_hard,
            "writes accepted": verdict.accepted,
            "stale writes attempted": verdict.stale_refused + len(verdict.stale_accepted),
            "stale writes refused": verdict.stale_refused,
            "stale writes accepted": len(verdict.stale_accepted),
            "refused though proved": len(verdict.refused_though_proved),
            "lost though renewed": history.counts["lost though renewed"],
            "orphans": self.orphans,
            "unexpected": history.unexpected,
            "exit statuses": self.statuses,
            "longest gap": round(verdict.longest_gap[0], 2),
            "longest gap by object": {on: round(gap, 2) for on, gap in verdict.gaps.items()},
            "struck in that gap": self._struck_in(*verdict.longest_gap),
            "results": dict(sorted((k, n) for k, n in history.counts.items() if ":" in k)),
            "errors told": dict(sorted(history.errors.items())),
        }

    def _struck_in(self, seconds: float, ended: float) -> list[str]:
        """Return what struck while nobody was granted anything, with when it began."""
        begun = ended - seconds
        return [
            f"{name} {began - begun:.1f} to {end - begun:.1f}"
            for name, began, end in self.trace
            if end > begun - 1 and began < ended
        ]

    def violations(self) -> list[str]:
        """Return what may not be, in words; empty when the run shows what it must."""
        report, verdict = self.report(), self.verdict
        never = ["fences that went back", "stale writes accepted", "unexpected"]
        if verdict.covered:
            never += ["overlaps of proved leases", "not linearizable", "refused though proved"]
            never += ["orphans"]
        found = [f"{name}: {report[name]}" for name in never if report[name]]
        showing = {fault.name for fault in self.faults if fault.shows and not fault.covered}
        if showing & self.struck.keys() and not verdict.overlaps:
            found.append("no overlap, in a run that must show some: the detector is broken")
        if any(self.statuses):
            found.append(f"exit statuses: {self.statuses}")
        if verdict.grants == 0:
            found.append("no grants")
        return found


def _known(wanted: Iterable[str], every: Iterable[Fault]) -> None:
    names = {fault.name for fault in every}
    if unknown := set(wanted) - names:
        raise ValueError(f"no such fault: {sorted(unknown)}; there are {sorted(names)}")
