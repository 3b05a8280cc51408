"""What one server carries: locks a second, commands, memory, renewals; and a plan made of that.

python benchmarks/capacity.py [--quick] [--json FILE] [--url URL]

Rates are per second of the server's own processor time, so that neighbours on the machine and slow
clients do not count. The commands are fencelock's own, recorded from a client and sent again by
programs that do nothing else.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import capacity_held as held
from capacity_plan import Measured, printed
from monitor import monitored
from servers import serving, version
from wire import Address, Line, dial, pack

import fencelock
from fencelock._io.connection_blocking import Connection

LINES = 50  # connections that ask by turns
NAMES = 1000
PONG = b"+PONG\r\n"
IDLE_SECONDS = 3.0


class Cost:
    """What a block cost the server: seconds of its processor, bytes of its network.

    What the server needs when nobody asks is taken off; ``idle`` is that, in seconds a second.
    """

    idle = 0.0

    cpu = received = sent = 0.0


@contextmanager
def cost(address: Address) -> Iterator[Cost]:
    """Fill in what the block cost, once it has ended."""
    told = Cost()
    with Line(address) as line:
        before, began = facts(line), time.monotonic()
        yield told
        after, ended = facts(line), time.monotonic()
    told.cpu, told.received, told.sent = (b - a for a, b in zip(before, after, strict=True))
    told.cpu -= Cost.idle * (ended - began)


def facts(line: Line) -> tuple[float, float, float]:
    cpu, stats = line.info("cpu"), line.info("stats")
    spent = float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])
    return spent, float(stats["total_net_input_bytes"]), float(stats["total_net_output_bytes"])


# --- pairs ----------------------------------------------------------------------------------------


def recorded(address: Address, names: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return the requests that take so many locks, renew and give them back, as a client packs."""
    requests: list[bytes] = []
    plain = Connection.run

    def run(self: Connection, request: bytes, *args: Any) -> object:
        requests.append(request)
        return plain(self, request, *args)

    Connection.run = run  # type: ignore[method-assign]  # where all requests come through
    try:
        with fencelock.Client(address.url) as client:
            made = [one_life(client, f"{number:020d}", requests) for number in range(names)]
    finally:
        Connection.run = plain  # type: ignore[method-assign]  # as it was
    takes, renews, gives = (list(each) for each in zip(*made, strict=True))
    return takes, renews, gives


def one_life(client: fencelock.Client, name: str, requests: list[bytes]) -> list[bytes]:
    """Take a lock, renew it, give it back; return the last request of each step."""
    lock, seen = client.lock(name, ttl=30), []
    lock.acquire()
    seen.append(requests[-1])
    assert lock.lease is not None
    lock.lease.renew()
    seen.append(requests[-1])
    lock.release()
    return [*seen, requests[-1]]


def one_by_one(address: Address, seconds: float, *rounds: list[bytes]) -> float:
    """Send requests in packets of their own, from many connections; return how many a round had."""
    lines = [dial(address) for _ in range(LINES)]
    end, sent = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for start in range(0, NAMES - LINES + 1, LINES):
            for requests in rounds:
                for line, request in zip(lines, requests[start : start + LINES], strict=True):
                    line.sendall(request)
                for line in lines:
                    line.recv(4096)
            sent += LINES
    for line in lines:
        line.close()
    return sent


def pipelined(address: Address, seconds: float, *rounds: list[bytes]) -> float:
    """Send requests as fast as the server reads them; return how many a round had."""
    packet = b"".join(b"".join(each) for each in zip(*rounds, strict=True)) + pack("PING")
    end, sent = time.monotonic() + seconds, 0
    with dial(address) as line:
        line.settimeout(60)
        while time.monotonic() < end:
            line.sendall(packet)
            tail = b""
            while not tail.endswith(PONG):
                tail = tail[-len(PONG) :] + line.recv(1 << 16)
            sent += NAMES
    return sent


def pairs(address: Address, seconds: float, found: Measured) -> None:
    takes, renews, gives = recorded(address, NAMES)
    found["renew_bytes_in"] = sum(map(len, renews)) / NAMES
    way: Callable[..., float]
    for way, name in ((one_by_one, "single"), (pipelined, "pipelined")):
        way(address, seconds / 4, takes, gives)  # warm
        with cost(address) as spent:
            sent = way(address, seconds, takes, gives)
        found[f"pair_us_{name}"] = spent.cpu / sent * 1e6
        if way is one_by_one:
            found["pair_bytes_in"], found["pair_bytes_out"] = (
                spent.received / sent,
                spent.sent / sent,
            )
        with Line(address) as line:
            for take in takes:
                line._socket.sendall(take)
                line._socket.recv(4096)
        with cost(address) as spent:
            sent = way(address, seconds, renews)
        found[f"renew_us_{name}"] = spent.cpu / sent * 1e6
        pipelined(address, 0.01, gives)


# --- commands -------------------------------------------------------------------------------------


def commands(address: Address, found: dict[str, str]) -> None:
    """Count what a client sends for one use of each primitive, by MONITOR."""
    with fencelock.Client(address.url) as client:
        for name, use in held.uses(client).items():
            for _ in range(3):  # connections are open, scripts are known
                use()
            with monitored(address) as seen:
                use()
            found[name] = ", ".join(f"{count} {each}" for each, count in sorted(seen.sent.items()))


# --- the whole ------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the locks and the time")
    parser.add_argument("--json", type=Path, help="write what was measured there")
    parser.add_argument("--url", help="use that server, which must be empty; else one is started")
    args = parser.parse_args()
    few = 10 if args.quick else 1
    found: Measured = {}
    counted: dict[str, str] = {}
    with serving(args.url) as server:
        address = server.address
        with Line(address) as line:
            if line.command("DBSIZE"):
                raise SystemExit("--url: that server is not empty")
        with cost(address) as nothing:
            time.sleep(IDLE_SECONDS)
        Cost.idle = nothing.cpu / IDLE_SECONDS
        commands(address, counted)
        pairs(address, 4 / few, found)
        held.handoffs(address, 6 / few, cost, found)
        held.memory(address, 100_000 // few, found)
        held.renewals(address, 20_000 // few, 30 / few, cost, found)
        about = f"{version(address)}, fencelock {fencelock.__version__}"
    print(printed(about, counted, found))
    if args.json:
        told = {"about": about, "commands": counted, "measured": found}
        args.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
