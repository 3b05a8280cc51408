"""A client in a process of its own, told what to do line by line; see ``children.Child``.

python -m tests.faults.child FACE URL OPTIONS   requests on stdin, answers and news on stdout
"""

import json
import os
import sys
import threading

from fencelock import FencelockError
from fencelock._runtime.clock import now
from tests.faults.world import FACES, spawn


class Program:
    """Carries out requests, each in a thread of its own, on handles kept by name."""

    def __init__(self, face):
        self._face = face
        self._handles = {}
        self._writing = threading.Lock()

    def answer(self, number, request):
        do = getattr(self, "do_" + request.pop("do"))
        try:
            answer = do(**request)
        except FencelockError as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        self.say({"id": number, "at": now(), **answer})

    def say(self, message):
        with self._writing:
            print(json.dumps(message), flush=True)  # noqa: T201 - how it talks to its parent

    def do_lock(self, name, handle, kind="lock", **options):
        options["on_lost"] = lambda lease: self.say(
            {"lost": lease.name, "at": now(), "deadline": lease.deadline}
        )
        self._handles[handle] = getattr(self._face, kind)(name, **options)
        return {}

    def do_acquire(self, handle, **options):
        lock = self._handles[handle]
        if not lock.acquire(**options):
            return {"granted": False}
        lease = lock.lease
        return {
            "granted": True,
            "returned": now(),
            "fence": lease.fence,
            "holder": lease.holder,
            "deadline": lease.deadline,
        }

    def do_release(self, handle):
        self._handles[handle].release()
        return {}

    def do_renew(self, handle):
        self._handles[handle].lease.renew()
        return {}

    def do_lost(self, handle):
        return {"lost": self._handles[handle].lease.lost}

    def do_check(self, handle):
        self._handles[handle].lease.check()
        return {}


def main():
    kind, url, options = sys.argv[1:]
    (face,) = (each for each in FACES if each.name == kind)
    program = Program(face(url, **json.loads(options)))
    program.say({"ready": True})
    for number, line in enumerate(sys.stdin):
        spawn(program.answer, number, json.loads(line))
    os._exit(0)  # the parent is gone, or done with us: no clean-up, as in a crash


if __name__ == "__main__":
    main()
