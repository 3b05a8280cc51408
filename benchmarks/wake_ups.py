"""Which is faster: each waiting thread reads its own socket, or one thread reads for all?

python benchmarks/wake_ups.py

Another process sends a grant to one of the waiting threads, which answers at once; the way back is
the same for both. Prints the median round trip, and context switches of the waiting process.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import socket
import statistics
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from time import perf_counter

GRANTS = 1000
ROUNDS = 7
END = b"\xff"

Answer = Callable[[], object]


def own_socket(waiters: Sequence[socket.socket]) -> list[threading.Thread]:
    """Have each thread read its own socket."""

    def wait(line: socket.socket) -> None:
        while line.recv(1) != END:
            line.send(b"!")

    return [threading.Thread(target=wait, args=(line,)) for line in waiters]


def one_reader(waiters: Sequence[socket.socket]) -> list[threading.Thread]:
    """Have one thread read the first socket, and wake the one that a message names."""
    line = waiters[0]
    bells = [threading.Lock() for _ in waiters]
    over: list[bool] = []
    for bell in bells:
        bell.acquire()

    def wait(bell: threading.Lock) -> None:
        while bell.acquire() and not over:
            line.send(b"!")

    def read() -> None:
        while (told := line.recv(1)) != END:
            bells[told[0]].release()
        over.append(True)
        for bell in bells:
            bell.release()

    return [threading.Thread(target=wait, args=(bell,)) for bell in bells] + [
        threading.Thread(target=read)
    ]


WAYS = {"own socket": own_socket, "one reader": one_reader}


def serve(way: str, waiters: Sequence[socket.socket], done: Connection) -> None:
    """Run the waiting threads until the end; tell how often they were switched."""
    threads = WAYS[way](waiters)
    for thread in threads:
        thread.start()
    before = resource.getrusage(resource.RUSAGE_SELF)
    for thread in threads:
        thread.join()
    after = resource.getrusage(resource.RUSAGE_SELF)
    done.send(after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw)


def measure(way: str, count: int) -> tuple[float, float]:
    """Return seconds and context switches of one grant, with so many waiting threads."""
    pairs = [socket.socketpair() for _ in range(count)]
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=serve, args=(way, [there for _, there in pairs], theirs))
    process.start()
    chosen = random.Random(1)
    taken = []
    for _ in range(GRANTS):
        number = chosen.randrange(count)
        line = pairs[number if way == "own socket" else 0][0]
        begin = perf_counter()
        line.send(bytes([number]))
        line.recv(1)
        taken.append(perf_counter() - begin)
    for here, _ in pairs:
        here.send(END)
    switches = mine.recv()
    process.join()
    for pair in pairs:
        for end in pair:
            end.close()
    return statistics.median(taken), switches / GRANTS


def main() -> None:
    for count in (1, 16, 100):
        told: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way in WAYS:
                told[way].append(measure(way, count))
        for way, samples in told.items():
            seconds = statistics.median(each[0] for each in samples)
            switches = statistics.median(each[1] for each in samples)
            print(f"{count:4} waiting, {way}: {seconds * 1e6:6.1f} us, {switches:.1f} switches")


if __name__ == "__main__":
    main()
