# Generated from aio/once.py by generate_blocking.py: change that, and run the script.
"""Run something once a period, for threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from fencelock._core.keys import LockKeys
from fencelock._core.lock.hold import Hold
from fencelock._core.objects.once import FinishedOnce, Runs
from fencelock._handles.body import Body
from fencelock._handles.decorator import NameTemplate, OnceSettings, RunningCalls, nested_call_error
from fencelock._handles.once import NOTHING, OnceHolds, Outcome, encoded
from fencelock._io.port_blocking import BlockingPort
from fencelock._io.threads import run_blocking
from fencelock._runtime import process
from fencelock._runtime.hints import made_by_clients
from fencelock._runtime.process import ProcessBound
from fencelock.blocking.caller import ASYNCHRONOUS, result_of
from fencelock.blocking.lease import BlockingHold, Lease
from fencelock.blocking.lock import Lock
from fencelock.options import LeaseOptions

P = ParamSpec("P")
T = TypeVar("T")
# What the decorated function is given: None, or a lease by a parameter that its callers omit.
Given = TypeVar("Given")


class Once(ProcessBound, Generic[Given]):
    """Run a function once a period, in one of many processes; ``Client.once`` makes it.

    ``run`` calls a function. As a decorator it runs the function that it decorates, and its name
    is a template that the call's arguments fill, as with ``Client.locked``. Both give an
    ``Outcome``.
    """

    __slots__ = ("_chosen", "_port", "_prefix", "_run_settings", "name")

    @made_by_clients
    def __init__(
        self,
        port: BlockingPort,
        prefix: str,
        name: str,
        chosen: LeaseOptions,
        run_settings: OnceSettings,
    ) -> None:
        self._port = port
        self._prefix = prefix
        self.name: str = name
        self._chosen = chosen
        self._run_settings = run_settings

    def __repr__(self) -> str:
        """Show the name and the period."""
        return f"<fencelock.Once {self.name!r} within={self._run_settings.within:g}>"

    @overload
    def run(
        self: Once[None],
        function: Callable[P, T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Outcome[T]: ...

    @overload
    def run(
        self: Once[Lease],
        function: Callable[..., T],
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Outcome[T]: ...

    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Outcome[Any]:
        """Call ``function(*args, **kwargs)`` unless it was run, or is being run, elsewhere.

        Returns the outcome: run here, done elsewhere, or, without ``wait``, being run elsewhere
        now. When the function raises, the run has failed: the exception goes on, and the next
        waiter, or any later call, may run it. When its process dies, another may run it after the
        ttl.

        Raises:
            AcquireTimeout: with ``wait``, it was not done within ``timeout``.
            NotAcquired: with ``wait``, it would wait for itself: it is called from within its run.
            LeaseLost: the lease was lost during the run and another may have begun: it may have
                been run twice, but for what refuses the older fence.
            TypeError, ValueError: the result cannot be kept. The run is done all the same.
            ServerError, OutcomeUnknown: as ``Lock.acquire``; the end of a run is
                reported to the server in the background.
        """
        plan = self._plan("-", function)
        return self._run(self.name, plan, plan.call(args, kwargs).into)

    @overload
    def __call__(self: Once[None], function: Callable[P, T]) -> Callable[P, Outcome[T]]: ...

    @overload
    def __call__(self: Once[Lease], function: Callable[..., T]) -> Callable[..., Outcome[T]]: ...

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function: each call runs it or tells what came of it, as ``run`` does.

        Raises:
            TypeError, ValueError: the template or the function cannot work.
        """
        plan = self._plan(self.name, function)

        def ran_once(*args: Any, **kwargs: Any) -> Outcome[Any]:
            call = plan.call(args, kwargs)
            return self._run(call.name, plan, call.into)

        return plan.dress(ran_once)

    def outcome(self) -> Outcome[Any]:
        """Ask the server for the outcome, and run nothing.

        Raises:
            ServerError: the server cannot tell, or no answer came.
        """
        runs = Runs(self._port, LockKeys(self._prefix, self.name))
        done = run_blocking(runs.read())
        run = None if done else run_blocking(runs.running())
        return Outcome(self.name, done, running=run)

    def forget(self) -> bool:
        """Drop the result, so that the next call runs again; return True if there was one.

        A run that is under way goes on.

        Raises:
            ServerError, OutcomeUnknown: the server refuses, or no answer came.
        """
        return run_blocking(Runs(self._port, LockKeys(self._prefix, self.name)).forget())

    def _plan(self, template: str, function: Callable[..., Any]) -> NameTemplate:
        lease = self._run_settings.lease
        return NameTemplate(template, function, lease=lease, asynchronous=ASYNCHRONOUS)

    def _run(self, name: str, plan: NameTemplate, body: Callable[[object], Any]) -> Outcome[Any]:
        holds = OnceHolds(LockKeys(self._prefix, name), self._chosen, BlockingHold)
        run = OnceLock(self._port, holds)
        me = (process.number(), process.here.unit, holds.keys.lock)
        mark = RunningCalls(self._run_settings.under_way, me)
        if mark.found and self._run_settings.wait:
            raise nested_call_error(name, holds.options.server)
        mine = Body(process.here.unit, id(run))
        try:  # whatever comes from here on, what is held is given back
            port = self._port
            attempt = mine.attempt = holds.attempt(port, mine.unit)
            begun = run_blocking(Runs(port, holds.keys).start(attempt, holds.options.timeout))
            if not isinstance(begun, Hold):
                if begun is None and self._run_settings.wait:
                    raise holds.timed_out(attempt)
                by = None if begun else run_blocking(Runs(port, holds.keys).run_by())
                return Outcome(name, begun, running=by)
            mark.put()
            value = result_of(body(run.entered(mine, begun)), plan.function)
            begun.body = None  # a loss cancels it no more
            return run.end(begun, self._run_settings.within, value)
        except BaseException as error:
            if holds.newest() is not None:
                run.__exit__(type(error), error, error.__traceback__)
            elif mine.held is None:  # a signal's exception may come when the flow had ended
                run.undo(mine)
            raise
        finally:
            mark.clear()


class OnceLock(Lock):
    """One call's request for the lock, and its run."""

    __slots__ = ()

    _holds: OnceHolds

    def entered(self, body: Body, hold: Hold) -> Lease:
        """Return the lease for the body."""
        body.held = hold
        return self._begun(body, hold)  # type: ignore[no-any-return]  # as in lock.py

    def undo(self, body: Body) -> None:
        """Withdraw a request."""
        self._undo(body)

    def end(self, hold: Hold, within: float, value: Any) -> Outcome[Any]:
        """Keep the result, and end the run."""
        port, holds, name, fence = self._port, self._holds, self.name, hold.fence
        try:
            form, data = encoded(name, value)
        except (TypeError, ValueError):
            run_blocking(Runs(port, holds.keys).finish(hold, holds, within, (NOTHING, b"")))
            raise
        run_blocking(Runs(port, holds.keys).finish(hold, holds, within, (form, data)))
        return Outcome(name, FinishedOnce(fence, 0.0, 0.0, form, "", data), ran=True)
