"""A beat on every host that schedules on one: the leader of an election.

    app.conf.beat_scheduler = "fencelock.contrib.celery:LeadingScheduler"

Rules of this file:

- A beat that does not lead has no schedule: it opens one when it is elected, and closes it when it
  stops leading.
- The server keeps when each entry ran last. So a new leader continues where the last one stopped:
  it repeats nothing, and no interval begins anew.
- An entry is claimed there before it is sent, by the leader's fence. A leader that was frozen and
  continues is refused, so no due time is sent twice.
- An error of the server never ends the beat: it campaigns again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from celery.beat import PersistentScheduler
from celery.utils.time import maybe_make_aware

from fencelock import options
from fencelock._operator import Operator
from fencelock._runtime.log import log
from fencelock.blocking.election import Election
from fencelock.contrib.celery.clients import client_of
from fencelock.errors import FencelockError

# How long one tick campaigns: then Celery sees that the beat is alive.
CAMPAIGN_SECONDS: Final = 5.0
# After an error of the server.
PAUSE_SECONDS: Final = 2.0
# A yearly entry is remembered until its next run.
KEPT_MS: Final = 400 * 86_400_000

# KEYS: the last runs. ARGV: fence, ttl in ms, then name and instant of each entry.
# Replies 0 when a later leader has claimed something, else 1.
_CLAIM: Final = b"""
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and tonumber(seen) > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
for i = 3, #ARGV, 2 do
  redis.call('HSET', KEYS[1], 'entry:' .. ARGV[i], ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""


class Candidacy:
    """One beat in the election of an app's beats."""

    def __init__(self, app: Any) -> None:
        client = client_of(app)
        name = options.text(
            "the setting fencelock_beat_election",
            app.conf.get("fencelock_beat_election") or f"beat:{app.main or 'celery'}",
        )
        self.election: Election = client.election(name, label="celery beat")
        self._operator = Operator(client)
        self._key = f"{self._operator.key(name)}~runs".encode()
        self.fence: int = 0  # of the leadership that this beat knows of
        self._behind: str | None = None  # whom it stands by for, as was logged

    def campaign(self) -> bool:
        """Stand for election for a while; True once elected."""
        if not self.election.campaign(timeout=CAMPAIGN_SECONDS):
            self._tell_who_leads()
            return False
        self._behind = None
        lease = self.election.lease
        self.fence = lease.fence if lease is not None else 0
        return True

    def _tell_who_leads(self) -> None:
        """Log once for each leader that this beat stands by."""
        leader = self.election.leader()
        if leader is not None and leader.candidate != self._behind:
            self._behind = leader.candidate
            log.info("this beat stands by, %s leads", leader.candidate)

    def last_runs(self) -> dict[str, datetime]:
        """Return when each entry ran last, on any beat, by its name: the server keeps it."""
        reply = self._operator.command(b"HGETALL", self._key, key=self._key)
        found = (
            reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
        )
        return {
            name.decode().removeprefix("entry:"): datetime.fromtimestamp(float(value), UTC)
            for name, value in found.items()
            if name.startswith(b"entry:")
        }

    def claim(self, runs: dict[str, datetime]) -> bool:
        """Write last runs; False when a leader with a greater fence has written."""
        words: list[bytes] = [b"%d" % self.fence, b"%d" % KEPT_MS]
        for name, at in runs.items():
            words += [name.encode(), repr(maybe_make_aware(at).timestamp()).encode()]
        claimed = self._operator.command(b"EVAL", _CLAIM, b"1", self._key, *words, key=self._key)
        return bool(claimed)

    def resign(self) -> None:
        """Hand over to the next beat, if this one leads. Never raises: the beat is about to end."""
        if self.election.lease is None:
            return
        try:
            self.election.resign()
        except (FencelockError, RuntimeError) as error:  # RuntimeError: in a signal handler
            log.warning("the beat could not resign; its leadership ends by its ttl: %s", error)


class LeadingBeat:
    """What a scheduler needs to schedule only while it leads; ``leading`` combines the two."""

    app: Any
    schedule: Any
    _heap: Any

    def __init__(self, *args: Any, lazy: bool = False, **kwargs: Any) -> None:
        self._leads: bool = False
        self._candidacy: Candidacy | None = None
        super().__init__(*args, lazy=True, **kwargs)  # type: ignore[call-arg]  # that of the scheduler
        if not lazy:  # else Celery asks only for its description
            self._candidacy = Candidacy(self.app)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Campaign for a while, or run what is due; return the delay to the next call."""
        try:
            if not self._still_leads() and not self._elected():
                return 0.0
            return float(super().tick(*args, **kwargs))  # type: ignore[misc]  # that of the scheduler
        except FencelockError as error:
            log.warning("the beat cannot stand for election now; it tries again: %s", error)
            return PAUSE_SECONDS

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send a due entry, unless a later leader has sent it."""
        at = self.schedule[entry.name].last_run_at
        try:
            claimed = self._standing.claim({entry.name: at})
        except FencelockError:
            self.schedule[entry.name] = entry  # still due: nothing was sent
            self._heap = None  # Celery has taken it out, and would not put it back
            raise
        if claimed:
            super().apply_entry(entry, producer=producer)  # type: ignore[misc]  # as above
        else:
            log.warning("%s is not sent: another beat leads now", entry.name)

    def should_sync(self) -> bool:
        """Return True if the schedule is open and due to be written."""
        return self._leads and bool(super().should_sync())  # type: ignore[misc]  # as above

    def close(self) -> None:
        """Close the schedule and hand over to the next beat; Celery calls it at the end."""
        try:
            self._step_down()
        finally:
            if self._candidacy is not None:
                self._candidacy.resign()

    @property
    def info(self) -> str:
        """Return what Celery prints when the beat starts."""
        return f"{super().info}\n    . leader -> one of all beats"  # type: ignore[misc]  # as above

    # -- leading --------------------------------------------------------------------------------

    @property
    def _standing(self) -> Candidacy:
        if self._candidacy is None:
            self._candidacy = Candidacy(self.app)
        return self._candidacy

    def _still_leads(self) -> bool:
        if self._leads and not self._standing.election.is_leader:
            log.warning("the beat lost its leadership, and schedules nothing until it is elected")
            self._step_down()
        return self._leads

    def _elected(self) -> bool:
        """Return True once elected; the schedule then continues where the last leader stopped."""
        if not self._standing.campaign():
            return False
        try:
            self._leads = True
            self.setup_schedule()  # type: ignore[attr-defined]  # that of the scheduler
            self._heap = None
            known, new = self._standing.last_runs(), {}
            for name, entry in self.schedule.items():
                if name in known:
                    entry.last_run_at = known[name]
                elif entry.last_run_at is not None:
                    new[name] = entry.last_run_at
            if self._standing.claim(new):
                log.info("this beat leads now, with fence %d", self._standing.fence)
                return True
        except BaseException:
            self.close()
            raise
        self.close()
        return False

    def _step_down(self) -> None:
        if self._leads:
            try:
                super().close()  # type: ignore[misc]  # that of the scheduler
            finally:
                self._leads = False


def leading(scheduler: type[Any]) -> type[Any]:
    """Return a scheduler class that schedules as this one does, and only while it leads.

    ``LeadingScheduler`` is that of Celery's own ``PersistentScheduler``.

    Raises:
        TypeError: it is no scheduler of Celery.
    """
    if not (hasattr(scheduler, "apply_entry")):
        raise TypeError(
            f"scheduler must be a class derived from celery.beat.Scheduler, not {scheduler!r}"
        )
    body = {"__doc__": f"{scheduler.__name__} on one of all beats.", "__module__": __name__}
    return type(f"Leading{scheduler.__name__}", (LeadingBeat, scheduler), body)


LeadingScheduler: type[Any] = leading(PersistentScheduler)
