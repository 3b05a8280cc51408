"""What a network between clients and a server can do, by the proxy of the tests."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

from fencelock._runtime.clock import now
from tests.faults.proxy import Proxy
from verification.runs.fault import Fault

Span = tuple[float, float]

REQUESTS = (
    "acquire",
    "release",
    "renew",
    "abandon",
    "heartbeat",
    "shares_acquire",
    "shares_release",
    "shares_renew",
    "subscribe",
    "granted",
)
ON_A_NODE = (*REQUESTS, "quorum_vote", "raise_fence", "membership")  # of a quorum
# What a lease begins with is delayed most: its deadline must not count from the answer (I2).
DELAYED = ("acquire", "acquire", "shares_acquire", "shares_acquire", "granted", *REQUESTS)
DROPS, DELAYS = ("drop_request", "drop_reply"), ("delay_request", "delay_reply", "late_request")
AFTER = ("close", "rst", "silence", "blackhole")


# So long after a late request ran what it was granted may last: its ttl, and a clock set back.
GHOST_SECONDS = 4.0


class _Stamped(threading.Event):
    """Knows when it was set."""

    at = 0.0

    def set(self) -> None:
        self.at = now()
        super().set()


class Network:
    """What the proxy does at the run's wish, and when requests may have arrived late by it."""

    def __init__(
        self, proxy: Proxy, dice: random.Random, names: tuple[str, ...] = REQUESTS
    ) -> None:
        self._proxy, self._dice, self._names = proxy, dice, names
        self._late: list[Any] = []
        self._pause = threading.Event()

    def faults(self) -> Iterator[Fault]:
        """Yield what the network can do."""
        yield Fault("drop", partial(self._lose, DROPS, self._names), often=3)
        yield Fault("delay", partial(self._lose, DELAYS, DELAYED), often=4)
        yield Fault("one-way cut", partial(self._cut, one_way=True))
        yield Fault("cut", partial(self._cut, one_way=False))

    def doubts(self) -> list[Span]:
        """Return when a request may have run again that its client had got an answer to."""
        hits = [fault for fault in self._late if fault.hit.is_set()]
        return [(one.hit.at, one.hit.at + one.seconds + GHOST_SECONDS) for one in hits]

    def _lose(self, actions: tuple[str, ...], names: tuple[str, ...]) -> None:
        dice = self._dice
        name, action, then = dice.choice(names), dice.choice(actions), dice.choice(AFTER)
        if name == "granted":  # a push: there is no request
            action = "drop_push" if action in DROPS else "delay_reply"
        how = {"then": then, "nth": dice.randrange(1, 4), "seconds": dice.random() * 0.9}
        fault = self._proxy.on(name, action, hit=_Stamped(), **how)
        if action in {"late_request", "delay_request"}:
            self._late.append(fault)

    def _cut(self, *, one_way: bool) -> None:
        """Hold what is sent; late requests arrive when the network is whole again."""
        requests = self._dice.random() < 0.5
        self._proxy.cut(requests=requests or not one_way, answers=not requests or not one_way)
        self._pause.wait(self._dice.choice((0.02, 0.2, 0.6)))
        self._proxy.heal()
