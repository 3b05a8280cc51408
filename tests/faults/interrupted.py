"""A program that waits in several threads and is ended by Ctrl-C; see ``test_giving_up``.

python -m tests.faults.interrupted URL NAME WAITERS   the main thread waits too; prints how it ended
"""

import sys
import threading

import fencelock


def main():
    url, name, waiters = sys.argv[1:]
    client = fencelock.Client(url, cohort=None)
    for _ in range(int(waiters)):
        threading.Thread(target=client.lock(name, ttl=60).acquire, daemon=True).start()
    try:
        with client.lock(name, ttl=60):
            pass
    except KeyboardInterrupt:
        print("interrupted", flush=True)  # noqa: T201 - how it talks to its parent
        raise


if __name__ == "__main__":
    main()
