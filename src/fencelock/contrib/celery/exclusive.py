"""``exclusive``: of all runs of a task with the same key, one at a time.

Rules of this file:

- A run holds an ordinary lease. It is renewed while the run lives and ends by itself when its
  process is killed: by SIGKILL, a revocation or a hard time limit.
- A run that is busy is never recorded as a success.
- A message that is delivered again meets the lease of its own earlier delivery. That one may be
  dead, so the run is retried, whatever ``busy`` says: skipping it would drop the work.
- A call inside a run for the same key is a part of that run.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import celery
from celery.local import PromiseProxy, Proxy

from fencelock import options
from fencelock._handles.decorator import NameTemplate, template_of
from fencelock._operator import loss_of
from fencelock._runtime.log import log
from fencelock.blocking.client import Client
from fencelock.blocking.lease import Lease
from fencelock.contrib.celery.clients import client_of
from fencelock.contrib.celery.outcomes import TaskBusy, TaskSkipped, as_task_error
from fencelock.contrib.interruption import LossInterrupt
from fencelock.errors import FencelockError, LeaseLost, NotAcquired
from fencelock.options import Seconds

T = TypeVar("T")
Busy = Literal["retry", "skip", "raise"]

# How long a busy run waits until it is tried again: a task that needs a lock takes seconds or more.
COUNTDOWN = 5.0
# Runs that were refused together do not come back together.
SPREAD = 0.25
# A redelivered run waits so much longer than the lease of its dead predecessor lasts.
GRACE = 0.2
LABEL_BYTES = 64
# In the headers of a retried message: how often it found the lock busy.
TRIES = "fencelock_busy"


class ExclusiveOptions(NamedTuple):
    """The checked options of ``exclusive``."""

    template: str | None  # of events
    busy: str
    lost: str
    timeout: float
    countdown: float
    retries: int | None
    ttl: float | None
    client: Client | None


class _Running(threading.local):
    """The leases of the runs of this thread, or greenlet, by lock; the innermost is the last."""

    def __init__(self) -> None:
        self.leases: dict[tuple[int, str], Lease] = {}


_running = _Running()


def exclusive(
    key: str,
    *,
    busy: Busy = "retry",
    lost: Literal["fail", "retry"] = "fail",
    timeout: Seconds = 0,
    countdown: Seconds = COUNTDOWN,
    retries: int | None = None,
    ttl: Seconds | None = None,
    client: Client | None = None,
) -> Callable[[T], T]:
    """Decorate a task so that one run at a time works on a key; sends nothing itself.

    ``key`` is a template in the form of ``Client.locked``: ``"import:{account_id}"`` takes the
    value from the task's arguments by name, defaults included. It is the name of the lock. Put the
    decorator below ``@app.task``, next to the function; above it works too.

    ``busy`` says how a run ends that finds the lock held. ``"retry"`` puts the message back, for
    ``countdown`` seconds (5, give or take a quarter), without counting against the task's own
    ``max_retries``; ``retries`` bounds how often, None: for ever. ``"skip"`` ends the run in the
    state REVOKED, with a ``TaskSkipped`` as result. ``"raise"`` fails it with ``TaskBusy``. All
    three name the holder. Before that a run waits in line for ``timeout`` seconds; 0 tries once, as
    waiting takes a slot of the worker.

    A loss of the lease raises ``TaskLeaseLost`` inside the task; ``lost="retry"`` then retries it,
    as the task's own ``retry`` does, but after ``countdown`` seconds. ``ttl`` is how long the key
    stays taken after its worker was killed, the client's by default. ``client`` is the client whose
    locks are used; None is that of the app's setting ``fencelock``, of ``FENCELOCK_URL``, or of a
    broker that is Redis or Valkey.

    Raises:
        TypeError, ValueError: the key, the task or an option cannot work.
    """
    if not isinstance(key, str):  # @exclusive without a call, for one
        raise TypeError(f'write @exclusive("import:{{account_id}}"): key must be str, not {key!r}')
    template = template_of(key)
    if busy not in {"retry", "skip", "raise"}:
        raise ValueError(f'busy must be "retry", "skip" or "raise", not {busy!r}')
    if lost not in {"fail", "retry"}:
        raise ValueError(f'lost must be "fail" or "retry", not {lost!r}')
    if not (client is None or isinstance(client, Client)):
        raise TypeError(f"client must be a fencelock.Client or None, not {client!r}")
    seconds = options.span("timeout", timeout)
    if not 0 <= seconds < options.TTL_MAX:
        raise ValueError(f"timeout must be 0 or more seconds, not {timeout!r}")
    if retries is not None and busy != "retry":
        raise ValueError(f"retries needs busy='retry': {busy!r} does not retry")
    chosen = ExclusiveOptions(
        template=template[: options.TEMPLATE_CHARS_MAX] if template.isprintable() else None,
        busy=busy,
        lost=lost,
        timeout=seconds,
        countdown=options.positive("countdown", countdown),
        retries=None if retries is None else options.count("retries", retries, least=0),
        ttl=None if ttl is None else options.lease_ttl(ttl),
        client=client,
    )

    return lambda target: _decorated(target, template, chosen)


def current_lease() -> Lease:
    """Return the lease of the exclusive task that this thread or greenlet runs, for its fence.

    Raises:
        LookupError: it runs none.
    """
    leases = list(_running.leases.values())
    if not leases:
        raise LookupError("no exclusive task runs in this thread")
    return leases[-1]


def _decorated(target: Any, template: str, chosen: ExclusiveOptions) -> Any:
    """Decorate a function, a task, or what becomes a task once its app is complete."""
    if type(target) is PromiseProxy:
        target.__then__(lambda: _decorated(target._get_current_object(), template, chosen))  # noqa: SLF001 - the task that the promise has become
        return target
    if type(target) is Proxy:
        raise TypeError(
            "put @exclusive below @shared_task, next to the function: each app makes its own task"
        )
    if not isinstance(target, celery.Task):
        return _guarded(target, template, chosen, None)
    target.run = _guarded(target.run, template, chosen, target)
    return target


def _guarded(function: Any, template: str, chosen: ExclusiveOptions, task: Any) -> Any:
    """Return what runs instead of the function."""
    plan = NameTemplate(template, function, lease=None, asynchronous=False)

    def run(*args: Any, **kwargs: Any) -> Any:
        call = plan.call(args, kwargs)
        running = task or celery._state.get_current_task()  # noqa: SLF001 - its public form is a proxy that cannot be None
        app = running.app if running is not None else celery.current_app._get_current_object()  # noqa: SLF001 - the app itself, to remember its client
        client = chosen.client or client_of(app)
        return Run(client, call.name, chosen, running).of(lambda: call.into(None))

    plan.dress(run)
    run.__signature__ = plan.open  # type: ignore[attr-defined]  # Celery checks arguments by it
    return run


class Run:
    """One run of a task, or one direct call of its function."""

    def __init__(self, client: Client, name: str, chosen: ExclusiveOptions, task: Any) -> None:
        self._client = client
        self._name = name
        self._chosen = chosen
        self._task = task
        request: Any = getattr(task, "request", None)
        self._request: Any = request
        # A direct call, or an eager one, has no message that could be put back.
        direct = request is None or request.called_directly or request.is_eager
        self._has_message = not direct and bool(request.id)
        self.label: str = label_of(task, request)

    def of(self, body: Callable[[], Any]) -> Any:
        """Call the body under the lock, or end the run as asked."""
        me = (id(self._client), self._name)
        if me in _running.leases:
            return body()
        interrupt, began = LossInterrupt(), False
        try:
            with self._client.lock(
                self._name,
                ttl=self._chosen.ttl,
                timeout=self._chosen.timeout,
                label=self.label,
                template=self._chosen.template,
                on_lost=lambda lease: interrupt.lost(as_task_error(loss_of(lease))),
            ) as lease:
                began = True
                _running.leases[me] = lease
                try:
                    with interrupt:
                        return body()
                finally:
                    del _running.leases[me]
        except NotAcquired:
            if began:
                raise
        except LeaseLost as error:
            if not began or error.name != self._name:
                raise
            # With the line of the body at which it struck.
            loss = as_task_error(interrupt.error or error).with_traceback(error.__traceback__)
            if self._chosen.lost == "retry" and self._has_message:
                raise self._task.retry(exc=loss, countdown=self._pause()) from None
            try:
                raise loss from None
            finally:
                del loss
        return self._end_busy()

    def _end_busy(self) -> Any:
        """End a run that did not get the lock."""
        busy = self._refused()
        if self._has_message and busy.holder.get("label") == self.label:
            return self._retry(busy, busy.holder["remaining"] + GRACE)
        if self._chosen.busy == "skip":
            return self._skip(TaskSkipped(*busy.args))
        spent = self._chosen.retries is not None and self._tries() >= self._chosen.retries
        if self._chosen.busy == "raise" or not self._has_message or spent:
            try:
                raise busy
            finally:
                del busy
        return self._retry(busy, self._pause())

    def _pause(self) -> float:
        """Return the time to a retry."""
        spread = random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - not a secret
        return self._chosen.countdown * spread

    def _tries(self) -> int:
        return int((self._request.headers or {}).get(TRIES, 0))

    def _retry(self, busy: TaskBusy, seconds: float) -> Any:
        """Put the message back; the task's own count of retries stays as it is."""
        headers = {**(self._request.headers or {}), TRIES: self._tries() + 1}
        again = self._task.signature_from_request(self._request, countdown=seconds, headers=headers)
        again.apply_async()
        raise celery.exceptions.Retry(exc=busy, when=seconds, sig=again)

    def _skip(self, skipped: TaskSkipped) -> Any:
        log.warning("%s skipped: %s", self.label, skipped)
        if self._has_message:
            request, backend = self._request, self._task.backend
            if not (self._task.ignore_result or request.ignore_result):
                backend.store_result(request.id, skipped, celery.states.REVOKED, request=request)
            if request.chord:
                backend.on_chord_part_return(request, celery.states.REVOKED, skipped)
        try:
            raise skipped
        finally:
            del skipped

    def _refused(self) -> TaskBusy:
        """Return the error that names the holder, in plain values, as far as the server can."""
        gone = TaskBusy(f"{self._name!r} was held, and is not any more")
        try:
            info = self._client.status(self._name, waiters=1)
        except FencelockError:
            return gone
        if not info.held:
            return gone
        fields: dict[str, Any] = {"remaining": info.remaining or 0.0, "held_for": 0.0}
        if info.holder is None:
            return TaskBusy(f"{self._name!r} is held by a program that is not fencelock", fields)
        who = info.holder
        fields |= {"held_for": who.held_for, "host": who.host, "pid": who.pid, "unit": who.unit}
        fields |= {"label": who.label, "task_id": task_id_of(who.label)}
        label = f" ({who.label})" if who.label else ""
        process = f"{who.host}:{who.pid}{label}"
        return TaskBusy(f"{self._name!r} is held by {process} for {who.held_for:.1f} s", fields)


def label_of(task: Any, request: Any) -> str:
    """Return what ``show`` prints beside the process: the id and the name of a task."""
    name = str(getattr(task, "name", "") or "")
    if request is None or not request.id:
        return _cut(f"call in {name}" if name else "call")
    known = f"task {request.id} "
    # The end of a dotted name says most.
    return _cut(known + name[-max(1, LABEL_BYTES - len(known)) :])


def _cut(text: str) -> str:
    return text.encode("ascii", "replace")[:LABEL_BYTES].decode().strip()


def task_id_of(label: str) -> str:
    """Return the id of the task that a label names, or nothing."""
    word, _, rest = label.partition(" ")
    return rest.partition(" ")[0] if word == "task" else ""
