"""Work without a deadline, in threads that a caller can leave (I13).

Rules of this file:

- A name look-up, or the connect of a user's client (with its credential provider), cannot be
  stopped. So it runs in a thread, and the caller waits until its deadline.
- Work that was left continues. The next caller of the same work waits for it instead of starting
  another: a silent resolver costs one thread, however often it is asked.
- A result that belongs to one caller (a connection) is disposed of when that caller has left.
- A signal handler may raise in the caller between any two bytecodes, even before its thread runs.
  So a claim is made before the work, and the first thread that runs begins the work. A claim that
  ends before any thread has run starts one for the other callers, or ends the work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from fencelock._runtime.clock import now
from fencelock._runtime.mutex import OneShotLatch, mutex, started
from fencelock._runtime.process import in_copies
from fencelock._runtime.typed import Any, Generic, TypeVar

T = TypeVar("T")


class Work(Generic[T]):
    """One piece of work and its waiting callers.

    If its key is the identity of an object, its function keeps that alive: no other may get it.
    """

    def __init__(self, function: Callable[[], T], dispose: Callable[[T], object] | None) -> None:
        self._function = function
        self._dispose = dispose
        self.result: T
        self.error: BaseException | None = None
        # Guarded by the mutex:
        self.begun: bool = False
        self.ended: bool = False
        self.claims: set[WorkClaim[T]] = set()  # of the callers that wait for it
        self.shared: bool = dispose is None

    def run(self) -> None:
        """Do it."""
        try:
            self.result = self._function()
        except BaseException as error:  # noqa: BLE001 - the caller raises it, in its own thread
            self.error = error
        finally:
            del self

    def drop(self) -> None:
        """Dispose of a result that no caller takes."""
        if self._dispose is not None and self.error is None:
            self._dispose(self.result)


class WorkClaim(Generic[T]):
    """A caller's claim to the result of some work, from ``WorkTable.claim`` on.

    ``then`` is called when the work has ended, maybe in its thread.
    """

    def __init__(self, then: Callable[[], object]) -> None:
        self.then = then
        self.work: Work[T] | None = None

    def result(self) -> T:
        """Return what the ended work returned, or raise its error; the claim ends with that.

        Else the two would keep each other, and a connection open that no pool keeps any more.
        """
        work = self.work
        if work is None:
            raise RuntimeError("the claim has ended")
        self.work = None
        work.claims.discard(self)
        try:
            if work.error is not None:
                raise work.error
            return work.result
        finally:
            del work


class WorkTable:
    """The work that is under way."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start empty: at first, and in a child process, which does not have the threads."""
        self._under_way: dict[Hashable, list[Work[Any]]] = {}

    def claim(
        self, key: Hashable, make: Callable[[], Work[T]], name: str, claim: WorkClaim[T]
    ) -> Work[T]:
        """Return the work of this key that is under way and may be shared, or start new work.

        However that ends, the caller must leave the claim if it takes no result.
        """
        with mutex():
            for each in self._under_way.get(key, ()):
                if each.shared or not each.claims:
                    claim.work = each
                    each.claims.add(claim)
                    return each
            claim.work = work = make()
            work.claims.add(claim)
            self._under_way.setdefault(key, []).append(work)
        self._start(key, work, name)
        return work

    def _start(self, key: Hashable, work: Work[Any], name: str) -> None:
        thread = threading.Thread(target=self._run, args=(key, work), name=name)
        if started(thread) is not None:  # a limit, or the end of the interpreter: do it here
            self._run(key, work)

    def _run(self, key: Hashable, work: Work[Any]) -> None:
        with mutex():
            if work.begun:
                return
            work.begun = True
        work.run()
        with mutex():
            self._remove(key, work)
            work.ended = True
            claims = tuple(work.claims)
        for each in claims:
            each.then()
        if not claims:
            work.drop()

    def _remove(self, key: Hashable, work: Work[Any]) -> None:
        """Offer work to no other caller; under the mutex."""
        running = self._under_way.get(key, [])
        if work in running:
            running.remove(work)
        if not running:
            self._under_way.pop(key, None)

    def leave(self, key: Hashable, claim: WorkClaim[Any], name: str) -> None:
        """Stop waiting for it, and take no result."""
        work = claim.work
        if work is None:
            return
        with mutex():
            last = work.claims == {claim}
            work.claims.discard(claim)
            abandoned, begun, others = last and work.ended, work.begun, bool(work.claims)
            if not begun and not others:
                work.begun = True  # a thread that comes yet has nothing to do
                self._remove(key, work)
        if abandoned:
            work.drop()
        if not begun and others:
            self._start(key, work, name)


under_way = WorkTable()
in_copies(under_way.forget)


def within(
    until: float,
    key: Hashable,
    function: Callable[[], T],
    *,
    name: str,
    dispose: Callable[[T], object] | None = None,
) -> T:
    """Return what the function returns, or raise what it raises; TimeoutError at the instant.

    Without ``dispose`` one result serves all callers with this key at the same time.
    """
    latch = OneShotLatch()
    claim: WorkClaim[T] = WorkClaim(latch.open)
    try:
        under_way.claim(key, lambda: Work(function, dispose), name, claim)
        if not latch.wait(max(0.0, until - now())):
            raise TimeoutError
    except BaseException:
        under_way.leave(key, claim, name)
        raise
    try:
        return claim.result()
    finally:
        del claim
