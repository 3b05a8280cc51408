"""What very many leases cost, on both faces: print a table.

python -m tests.scale.measure [COUNT:TTL ...]

Client and server are measured while nothing but renewal goes on. The pair is an acquire and a
release of one more lock, timed in turns with a process that holds nothing.
"""

import sys
import threading

from tests.faults.conftest import load
from tests.scale.children import children, cpu_seconds, scripts_run
from tests.servers import Server

CASES = ("10000:10", "100000:30")
ROUNDS = 10
ROW = "{:<8}{:>8}{:>5}{:>10}{:>11}{:>11}{:>9}{:>9}{:>8}{:>9}{:>8}".format
HEAD = ("face", "leases", "ttl", "leases/", "client CPU", "server CPU", "script", "stall", "bytes/")
MORE = ("", "", "", "command", "s/min", "s/min", "us", "ms", "lease", "ratio", "s")


def renewals(server, keeper, seconds):
    """Return what ``seconds`` of renewals cost: commands, seconds of both, us a script."""
    keeper.ask("renewed 1")
    server.command("CONFIG", "RESETSTAT")
    before = cpu_seconds(server)
    keeper.ask("begin")
    threading.Event().wait(seconds)
    told = keeper.ask("report")
    text = server.info("commandstats")["cmdstat_evalsha"]
    script = float(text.partition("usec_per_call=")[2].partition(",")[0])
    each = server.commandstats()["pexpire"] / 2 / scripts_run(server)
    per_minute = 60 / told["seconds"]
    spent = told["cpu"] * per_minute, (cpu_seconds(server) - before) * per_minute
    assert (told["lost"], told["told"]) == (0, 0)
    return each, *spent, script


def pairs(keeper, empty):
    """Return how much longer a pair takes beside the leases than without any, in turns.

    The least of each: what else the machine does only adds.
    """
    beside, without = [], []
    for _ in range(ROUNDS):
        without.append(empty.ask("pairs 5")["least us"])
        beside.append(keeper.ask("pairs 5")["least us"])
    return min(beside) / min(without)


def stall(keeper, seconds):
    """Return the longest time for which a thread or the loop came too late, in ms."""
    keeper.ask("tick")
    keeper.ask("begin")
    threading.Event().wait(seconds)
    return keeper.ask("report")["stall ms"]


def case(face, count, ttl):
    with Server() as server:
        load(server)
        many, none = (("keeper", face, server.url, each, ttl) for each in (count, 0))
        with children(many, none) as (keeper, empty):
            held = keeper.ask("hold")
            cost = renewals(server, keeper, ttl)
            ratio = pairs(keeper, empty)
            late = stall(keeper, ttl / 2)
            closed = keeper.ask("close")["seconds"]
    each, client, of_server, script = cost
    numbers = f"{each:.0f}", f"{client:.2f}", f"{of_server:.2f}", f"{script:.0f}", f"{late:.1f}"
    return face, count, ttl, *numbers, f"{held['bytes']:.0f}", f"{ratio:.2f}", f"{closed:.2f}"


def main():
    for words in ((*HEAD, "pair", "close"), MORE):
        print(ROW(*words))  # noqa: T201 - run by hand, to be read
    for chosen in sys.argv[1:] or CASES:
        count, _, ttl = chosen.partition(":")
        for face in ("threads", "tasks"):
            print(ROW(*case(face, int(count), int(ttl))), flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    main()
