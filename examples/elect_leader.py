"""An election: three candidates, one leads at a time, and the first hands over to the last.

    python examples/elect_leader.py [--processes N]

Each candidate is a client of its own, as if it were a process on its own host.
"""

from __future__ import annotations

import argparse
import os
import threading
import time

import fencelock

NAME = f"examples:leader:{os.getpid()}"
LED: list[str] = []


def stand(candidate: str, successor: str | None) -> None:
    with fencelock.Client() as client:
        election = client.election(NAME, candidate=candidate, timeout=30)
        with election as lease:
            LED.append(candidate)
            print(f"{candidate} leads with fence {lease.fence}")
            if successor is None:
                return
            while successor not in election.candidates():
                time.sleep(0.01)
            election.hand_over(successor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=5)
    processes = parser.parse_args().processes
    if processes < 2:
        parser.error("--processes: one hands over to another, so there are two at least")
    names = [f"host-{number}" for number in range(processes)]
    with fencelock.Client() as client:
        watcher = client.election(NAME)
        first = threading.Thread(target=stand, args=(names[0], names[-1]))
        first.start()
        for leader in watcher.changes():
            if leader is not None:
                break
        others = [threading.Thread(target=stand, args=(name, None)) for name in names[1:]]
        for thread in others:
            thread.start()
        for thread in (first, *others):
            thread.join()
        assert watcher.leader() is None
    assert LED[:2] == [names[0], names[-1]], LED
    assert sorted(LED) == sorted(names)
    print(f"{len(names)} candidates, {len(LED)} leaders one after the other")


if __name__ == "__main__":
    main()
