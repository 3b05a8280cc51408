"""What a network between clients and a server can do, by the proxy of the tests."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from functools import partial

from tests.faults.proxy import Proxy
from verification.runs.fault import Fault

REQUESTS = (
    "acquire",
    "release",
    "renew",
    "abandon",
    "alive",
    "shares_acquire",
    "shares_release",
    "shares_renew",
    "subscribe",
    "granted",
)
# What a lease begins with is delayed most: its deadline must not count from the answer (I2).
DELAYED = ("acquire", "acquire", "shares_acquire", "shares_acquire", "granted", *REQUESTS)
DROPS, DELAYS = ("drop_request", "drop_reply"), ("delay_request", "delay_reply", "late_request")
AFTER = ("close", "rst", "silence", "blackhole")


def faults(proxy: Proxy, dice: random.Random) -> Iterator[Fault]:
    """Yield what the network can do."""
    yield Fault("drop", partial(_lose, proxy, dice, DROPS), often=3)
    yield Fault("delay", partial(_lose, proxy, dice, DELAYS), often=4)
    yield Fault("one-way cut", partial(_cut, proxy, dice, one_way=True))
    yield Fault("cut", partial(_cut, proxy, dice, one_way=False))


def _lose(proxy: Proxy, dice: random.Random, actions: tuple[str, ...]) -> None:
    names = REQUESTS if actions is DROPS else DELAYED
    name, action, then = dice.choice(names), dice.choice(actions), dice.choice(AFTER)
    if name == "granted":  # a push: there is no request
        action = "drop_push" if action in DROPS else "delay_reply"
    proxy.on(name, action, then=then, nth=dice.randrange(1, 4), seconds=dice.random() * 0.9)


def _cut(proxy: Proxy, dice: random.Random, *, one_way: bool) -> None:
    """Hold what is sent; late requests arrive when the network is whole again."""
    requests = dice.random() < 0.5
    proxy.cut(requests=requests or not one_way, answers=not requests or not one_way)
    threading.Event().wait(dice.choice((0.02, 0.2, 0.6)))
    proxy.heal()
