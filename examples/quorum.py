"""Over a quorum: a lock that no single server's end takes away.

    python examples/quorum.py redis://a:6379/0 redis://b:6379/0 redis://c:6379/0 [--turns N]

Three workers take turns. While they do, stop or kill one of the three servers: a majority is left,
and the turns go on. Stop a second one: nobody is granted the lock any more, and a worker that waits
gets QuorumNotReached, with the trouble of each server. Without URLs, FENCELOCK_URL is used, with
blanks or commas between them. The servers must be independent: no replicas of one another.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

import fencelock

WORKERS = 3


async def take_turns(client: fencelock.AsyncClient, turns: int, fences: list[int]) -> None:
    """Take the lock so many times, and note the fences."""
    lock = client.lock("examples:quorum", ttl=10, timeout=10, on_lost="cancel")
    for _ in range(turns):
        async with lock as lease:
            before = list(fences)
            await asyncio.sleep(0.02)  # the work, cancelled when a majority is gone for too long
            assert fences == before, "somebody else had a turn meanwhile"
            fences.append(lease.fence)


async def run(urls: list[str], turns: int) -> None:
    """Let the workers take turns, and look at their fences."""
    fences: list[int] = []
    async with fencelock.AsyncClient(urls, label="quorum") as client:
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(WORKERS):
                    workers.create_task(take_turns(client, turns, fences))
        except* (fencelock.QuorumNotReached, fencelock.AcquireTimeout) as errors:
            sys.exit(trouble(errors))
    assert fences == sorted(set(fences)), "the fences did not grow"
    print(f"{len(fences)} turns over {len(urls)} servers, none overlapped, fences grew")


def trouble(errors: BaseExceptionGroup[fencelock.FencelockError]) -> str:
    """Say what the servers said."""
    lines = [str(error) for error in errors.exceptions]
    for error in errors.exceptions:
        if isinstance(error, fencelock.QuorumNotReached):
            lines += [f"  {node}: {cause}" for node, cause in error.causes.items()]
    return "\n".join(dict.fromkeys(lines))


def main() -> None:
    """Read the arguments and start the loop."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("urls", nargs="*", metavar="url")
    parser.add_argument("--turns", type=int, default=10)
    args = parser.parse_args()
    urls = args.urls or os.environ.get("FENCELOCK_URL", "").replace(",", " ").split()
    if len(urls) < 3:
        parser.error("give three or more servers: redis://a:6379/0 redis://b:6379/0 …")
    asyncio.run(run(urls, args.turns))


if __name__ == "__main__":
    main()
