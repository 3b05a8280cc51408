"""What do hooks cost an acquire and release, and what does it cost that there could be one?

python benchmarks/hooks.py

Prints the time of a pair on one thread: of fencelock without the lines that look for hooks, as it
is without a hook, and with each ready hook that is installed. All take turns in one process.
"""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from measure import Plan, Samples, alternate
from servers import serving

import fencelock
from fencelock._core.lock import acquire, release
from fencelock.instrumentation import (
    Hook,
    OrderChecker,
    logging_hook,
    opentelemetry_hook,
    prometheus_hook,
    set_hooks,
)

PAIRS = 200  # of one sample
ROUNDS = 60
WITHOUT, AS_IS = "without the lines that look for hooks", "no hook"
# The lines of an uncontended pair that look for hooks, as they stand in these functions.
LOOKS = {
    acquire.start: (
        """    if events.hooks and attempt.event is None:
        events.requested(port, attempt, waits=not attempt.at_once)
""",
    ),
    acquire.answered: (
        """            if attempt.event is not None:
                attempt.event.granted(attempt)
""",
    ),
    release.finish: (
        """        if hold.reported:  # each release comes here: without a hook not even a call
            events.end_hold(hold)
""",
    ),
}


def nothing(_event: object) -> None:
    """Be the cheapest hook there can be."""


def hooks() -> dict[str, list[Hook]]:
    """Return what is compared, by name."""
    found: dict[str, list[Hook]] = {
        WITHOUT: [],
        AS_IS: [],
        "a hook that does nothing": [nothing],
        "logging, not at DEBUG": [logging_hook()],
        "the checker of orders": [OrderChecker()],
    }
    if find_spec("prometheus_client"):
        found["Prometheus"] = [prometheus_hook()]
    if find_spec("opentelemetry"):
        found["OpenTelemetry"] = [opentelemetry_hook()]
    return found


@contextlib.contextmanager
def stripped() -> Iterator[None]:
    """Run these functions without the lines that look for hooks."""
    codes = {function: function.__code__ for function in LOOKS}
    for function, looks in LOOKS.items():
        function.__code__ = _without(function, looks)
    try:
        yield
    finally:
        for function, code in codes.items():
            function.__code__ = code


def _without(function: Any, looks: tuple[str, ...]) -> Any:
    text = inspect.getsource(function)
    for each in looks:
        if each not in text:
            raise LookupError(f"{function.__name__} has no such lines any more: {each!r}")
        text = text.replace(each, "")
    made: dict[str, Any] = {}
    exec(compile(textwrap.dedent(text), "<stripped>", "exec"), function.__globals__, made)  # noqa: S102 - our own source
    return made[function.__name__].__code__


def measured(lock: fencelock.Lock, compared: dict[str, list[Hook]]) -> Callable[[str], float]:
    """Return what measures one pair, in microseconds."""

    def measure(name: str) -> float:
        set_hooks(compared[name])
        with stripped() if name == WITHOUT else contextlib.nullcontext():
            began = perf_counter()
            for _ in range(PAIRS):
                lock.acquire()
                lock.release()
            return (perf_counter() - began) / PAIRS * 1e6

    return measure


def print_table(samples: Samples, names: list[str]) -> None:
    print("| hooks | a pair, us | x without |")
    print("| --- | --- | --- |")
    for name in names:
        ratio = 1.0 if name == WITHOUT else samples.ratio_to_floor(name)
        print(f"| {name} | {samples.median(name):.1f} | {ratio:.3f} |")


def main() -> None:
    compared = hooks()
    with serving(None) as server, fencelock.Client(server.address.url) as client:
        measure = measured(client.lock("bench", template="bench"), compared)
        peers = [name for name in compared if name not in {WITHOUT, AS_IS}]
        samples = alternate(measure, WITHOUT, AS_IS, peers, Plan(ROUNDS))
    set_hooks([])
    print_table(samples, list(compared))


if __name__ == "__main__":
    main()
