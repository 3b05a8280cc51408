"""10,000 leases held by one process: what keeping them costs it, and whether it keeps them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from contestants import FLOOR, OURS, THREADS, CannotRun
from crew import Crew, Who
from floors import RELEASE
from report import Result
from slow import BUSY
from wire import Address, Line, dial, pack

import fencelock
from cases import Setting

LEASES = 10_000
TTL_SECONDS = 10
PERIOD_SECONDS = TTL_SECONDS / 3
LEASES_A_COMMAND = 100
CPU_S_PER_MIN = 0.3
EXTEND = RELEASE.replace("'DEL',KEYS[1]", "'PEXPIRE',KEYS[1],ARGV[2]")
NO_RENEWAL = "does not renew by itself"


class Kept(NamedTuple):
    """What one process used while it held its leases."""

    cpu_s_per_min: float  # once each lease was renewed a few times
    at_first: float  # the same in the first ttl
    commands: int
    threads: int
    lost: int


def key(name: str, number: int) -> str:
    return f"bench:renew:{name}:{number}"


# --- in the worker: each takes all leases, and returns how many it has lost -----------------------


def ours(address: Address) -> Callable[[], int]:
    client = fencelock.Client(address.url, key_prefix="")
    locks = [client.lock(key(OURS, number), ttl=TTL_SECONDS) for number in range(LEASES)]
    for lock in locks:
        lock.acquire()
    leases = [(lock, lock.lease) for lock in locks]  # a client that is let go keeps nothing

    def count_lost() -> int:
        lost = sum(lease is None or lease.lost for _, lease in leases)
        client.close(release=True)  # else each of them would be reported as left behind
        return lost

    return count_lost


def floor(address: Address) -> Callable[[], int]:
    """One thread and one socket; all scripts of a period are written at once."""
    with Line(address) as line:
        script = line.command("SCRIPT", "LOAD", EXTEND)
        for number in range(LEASES):
            line.command("SET", key(FLOOR, number), "token", "NX", "PX", TTL_SECONDS * 1000)
    told = (script, 1), ("token", TTL_SECONDS * 1000)
    extend = b"".join(
        pack("EVALSHA", *told[0], key(FLOOR, number), *told[1]) for number in range(LEASES)
    )
    socket = dial(address)
    lost = 0

    def renew() -> None:
        nonlocal lost
        while True:
            time.sleep(PERIOD_SECONDS)
            replies, sender = 0, threading.Thread(target=socket.sendall, args=(extend,))
            sender.start()
            while replies < LEASES:
                data = socket.recv(1 << 16)
                replies += data.count(b"\r\n")
                lost += data.count(b":0")
            sender.join()

    threading.Thread(target=renew, daemon=True).start()
    return lambda: lost


def tooz(address: Address) -> Callable[[], int]:
    from tooz.coordination import get_coordinator  # noqa: PLC0415  # a peer that may be missing

    url = f"redis://{address.host}:{address.port}?lock_timeout={TTL_SECONDS}"
    coordinator = get_coordinator(url, b"bench-renew")
    coordinator.start(start_heart=True)
    locks = [coordinator.get_lock(key("tooz", number).encode()) for number in range(LEASES)]
    for lock in locks:
        lock.acquire()
    return lambda: sum(not lock.is_still_owner() for lock in locks)


def aioredlock(address: Address) -> Callable[[], int]:
    from aioredlock import Aioredlock  # noqa: PLC0415  # a peer that may be missing

    loop = asyncio.new_event_loop()

    async def take() -> list[Any]:
        connections = [{"host": address.host, "port": address.port}]
        client = Aioredlock(connections, internal_lock_timeout=TTL_SECONDS)
        return [await client.lock(key("aioredlock", number)) for number in range(LEASES)]

    locks = loop.run_until_complete(take())
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return lambda: sum(not lock.valid for lock in locks)


KEEPERS = {OURS: ours, FLOOR: floor, "tooz": tooz, "aioredlock": aioredlock}
WHY_NOT = {
    "python-redis-lock": "a thread for each lock: 10,000 of them do not keep their leases, and"
    " the machine does nothing else meanwhile",
}


def keep(who: Who, seconds: float) -> Kept:
    """Take all leases, let them be renewed for a while, and see what that took."""
    try:
        count_lost = KEEPERS[who.name](who.address)
    except ModuleNotFoundError as error:
        raise CannotRun(f"not installed (no module {error.name})") from error
    with Line(who.address) as line:
        if who.slow_us:
            threading.Thread(target=burden, args=(who,), daemon=True).start()
        at_first = used_in(TTL_SECONDS)
        line.command("CONFIG", "RESETSTAT")
        used = used_in(seconds)
        stats = line.info("commandstats")
    # Each of them renews by a script that does not call scripts.
    calls = [re.search(r"calls=(\d+)", stats.get(f"cmdstat_{n}", "")) for n in ("eval", "evalsha")]
    commands = sum(int(found[1]) for found in calls if found)
    return Kept(used, at_first, commands, threading.active_count(), count_lost())


def used_in(seconds: float) -> float:
    """Return the processor time a minute of the next seconds."""
    before = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - before) * 60 / seconds


def burden(who: Who) -> None:
    """Ours made slower on purpose: work for each lease, and a command for every fifty."""
    line = Line(who.address)
    while True:
        until = time.thread_time() + LEASES * who.slow_us / 1e6
        while time.thread_time() < until:
            pass
        for _ in range(LEASES // 50):
            line.command("EVAL", BUSY, 0, who.slow_us)
        time.sleep(PERIOD_SECONDS)


# --- the case -------------------------------------------------------------------------------------


def case(setting: Setting) -> list[Result]:
    """Ours alone, so that its commands can be counted; then the others, each in its process."""
    seconds = PERIOD_SECONDS * (2 if setting.quick else 6)
    kept: dict[str, Kept] = {}
    absent = {name: WHY_NOT.get(name, NO_RENEWAL) for name in setting.peers}
    peers = [name for name in setting.peers if name in KEEPERS]
    for together in ([OURS], [FLOOR, *peers]):
        with contextlib.ExitStack() as stack:
            crews = {name: stack.enter_context(Crew(1)) for name in together}
            for name, crew in crews.items():
                crew.send(0, keep, setting.who(name, THREADS), seconds)
            for name, crew in crews.items():
                absent.pop(name, None)
                try:
                    kept[name] = crew.result(0)
                except CannotRun as error:
                    absent[name] = str(error)
    if not {OURS, FLOOR} <= kept.keys():
        raise RuntimeError(f"renew-10k: {absent}")
    return [row_of(kept, absent, seconds)]


def row_of(kept: dict[str, Kept], absent: dict[str, str], seconds: float) -> Result:
    renewals = LEASES * seconds / PERIOD_SECONDS
    mine = kept[OURS]
    a_command = renewals / max(1, mine.commands)
    peers = {name: told.cpu_s_per_min for name, told in kept.items() if name not in {OURS, FLOOR}}
    best = min(peers, key=peers.__getitem__, default=None)
    return Result(
        case="renew-10k",
        unit="CPU s/min",
        ours=mine.cpu_s_per_min,
        floor=kept[FLOOR].cpu_s_per_min,
        peers=peers,
        ratio_to_floor=mine.cpu_s_per_min / kept[FLOOR].cpu_s_per_min,
        ratio_to_best_peer=mine.cpu_s_per_min / peers[best] if best else None,
        target=f"<= {CPU_S_PER_MIN} CPU s/min, >= {LEASES_A_COMMAND} leases a command, none lost",
        met=mine.cpu_s_per_min <= CPU_S_PER_MIN and a_command >= LEASES_A_COMMAND and not mine.lost,
        best_peer=best,
        absent=absent,
        details={
            "leases renewed by one command of ours": round(a_command),
            "CPU s/min in the first ttl": {n: round(told.at_first, 2) for n, told in kept.items()},
            "lost": {name: told.lost for name, told in kept.items()},
            "threads, the main one included": {n: told.threads for n, told in kept.items()},
        },
    )
