"""A service that Sentinels watch: their replies about its master, and when its answers count.

Rules of this file:

- A Sentinel's reply carries its config-epoch, which grows with every failover. The highest wins, so
  that a Sentinel that was cut off leads no client back to an old master.
- An old master that was frozen or cut off accepts writes for seconds after it is back. So a
  master's answers count only on fresh evidence: the Sentinels were asked at most a second before
  the answer came, and after it if the answer took long, or if a failover may be under way.
- If no Sentinel can be reached, the last known master stays trusted. Locks stay usable then; only a
  failover that happens meanwhile goes unnoticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fencelock._core.types import NoReply
from fencelock.errors import ServerDenied, ServerError, ServerUnreachable, ServerUnsuitable

# Each Sentinel gets this long to answer, and where none was ever heard, so many times longer; a far
# one takes so many round trips.
SENTINEL_SECONDS = 0.5
FIRST_FACTOR = 10
ROUND_TRIPS = 8
# Once most have answered, the others get this much longer: a dead host would cost half a second.
GRACE_SECONDS = 0.1
# How long a round counts: no failover completes sooner after a Sentinel has found nothing wrong.
FRESH_SECONDS = 1.0
# The same while one Sentinel suspects the master: others must agree first, and elect one to act.
SUSPECT_SECONDS = 0.1
# The same once enough suspect it, or one replaces it: each answer needs a question after it.
REPLACING_SECONDS = 0.0
# An answer that took longer may have waited in a frozen server: it needs a question after it.
SLOW_SECONDS = 0.5
# Connections that are opened at once share a round that began this recently.
SHARED_SECONDS = 0.1
# A push waits for its proof this long: for the round that is under way, and for one after it.
PUSH_SECONDS = 2 * SENTINEL_SECONDS
# A caller whose time is up leaves a last question this much, within the 100 ms of I13.
_LAST_SECONDS = 0.05
# Sentinels that were set up again count epochs from 0: the old count is forgotten after this.
FORGET_SECONDS = 10.0
_WRONG = {
    "s_down": SUSPECT_SECONDS,
    "o_down": REPLACING_SECONDS,
    "failover_in_progress": REPLACING_SECONDS,
}
_REPLICA = frozenset({"READONLY", "MASTERDOWN"})


class SentinelReply(NamedTuple):
    """What one Sentinel replied: which server is the master, since which epoch.

    ``fresh_for``: how long a round with this reply counts.
    """

    epoch: int
    host: str
    port: int
    fresh_for: float = FRESH_SECONDS

    @property
    def suspected(self) -> bool:
        """Return True if the Sentinel finds something wrong with the master."""
        return self.fresh_for < FRESH_SECONDS

    @property
    def where(self) -> tuple[str, int]:
        """Return the address that is named."""
        return self.host, self.port


class SentinelService(NamedTuple):
    """A service behind Sentinels: how to reach each of them, and the master that they name."""

    sentinels: Sequence[Any]
    name: str  # in the Sentinels' configuration
    at: Callable[[SentinelReply], Any]  # a source, see ``_io.sources.kinds``
    label: str


# What a question to one Sentinel came to; None: no answer.
Outcome = SentinelReply | Exception | None


def questions(service: SentinelService) -> tuple[tuple[bytes, ...], ...]:
    """Return what a Sentinel is asked: the epoch first.

    While it leads a failover, MASTER has the new epoch and still the old address.
    """
    name = service.name.encode()
    return (b"SENTINEL", b"MASTER", name), (b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name)


def parse_reply(master: Any, address: Any) -> SentinelReply:
    """Return the answers to ``questions`` as one reply; ServerUnsuitable when they are none.

    A Sentinel that has promoted a replica names it, and still lists the old master and its state:
    that is no reason to suspect the new one.
    """
    facts = (
        master if isinstance(master, dict) else dict(zip(master[::2], master[1::2], strict=True))
    )
    try:
        host, port = address
        flags = facts[b"flags"].decode().split(",")
        listed = facts.get(b"ip", host), facts.get(b"port", port)
        found = [_WRONG[flag] for flag in flags if flag in _WRONG and listed == (host, port)]
        fresh_for = min(found, default=FRESH_SECONDS)
        return SentinelReply(int(facts[b"config-epoch"]), host.decode(), int(port), fresh_for)
    except (TypeError, ValueError, KeyError) as error:
        raise ServerUnsuitable(f"not a Sentinel's answer: {master!r} {address!r}") from error


class MasterState:
    """What is known of a service's master. Plain decisions; the caller keeps threads apart."""

    def __init__(self, service: SentinelService) -> None:
        self._service = service
        self.fresh_for = FRESH_SECONDS  # how long the last round counts
        self.reply: SentinelReply | None = None  # the one that is believed
        self.generation = 0  # grows with each master; a connection belongs to one generation
        self.asked_at = float("-inf")  # when the last round of questions began
        self.silent: frozenset[int] = frozenset()  # Sentinels that did not answer it
        self._all_silent = False  # no Sentinel answered in the last round
        self._confirmed_at = 0.0  # when a Sentinel last confirmed the reply

    def learn(self, replies: Iterable[SentinelReply], began: float) -> None:
        """Take what the Sentinels replied so far in a round that began then."""
        given = list(replies)
        if not given:
            return
        votes = Counter((reply.epoch, *reply.where) for reply in given)
        best = max(given, key=lambda reply: (reply.epoch, votes[reply.epoch, *reply.where]))
        known = self.reply
        if known is None or best.epoch > known.epoch:
            self.generation += 1
        elif best[:3] != known[:3] and not self._set_up_anew(best, given, began):
            return
        elif best.where != known.where:
            self.generation += 1
        self.reply, self._confirmed_at = best, began

    def _set_up_anew(
        self, best: SentinelReply, given: Sequence[SentinelReply], began: float
    ) -> bool:
        """Return True if most Sentinels agree on something that does not follow what was known.

        They forgot their epoch, then: what was known must not have been confirmed for a while.
        """
        agreed = sum(reply.where == best.where for reply in given)
        if 2 * agreed <= len(self._service.sentinels):
            return False
        known = self.reply
        if known is None or best.epoch == known.epoch:
            return True
        return began - self._confirmed_at > FORGET_SECONDS

    def heard_from(self, at: int, outcome: Outcome) -> None:
        """Note that one Sentinel has answered, maybe too late for its round: it is not silent."""
        if outcome is not None:
            self.silent -= {at}

    def end_round(self, began: float, outcomes: Sequence[Outcome]) -> None:
        """Note that a round is over, and which Sentinels were silent in it."""
        if began < self.asked_at:
            return
        self.asked_at = began
        self.silent = frozenset(at for at, each in enumerate(outcomes) if each is None)
        replies = [each for each in outcomes if isinstance(each, SentinelReply)]
        self._all_silent = not replies
        self.fresh_for = freshness(outcomes)

    def is_complete(self, outcomes: Sequence[Outcome]) -> bool:
        """Return True if every Sentinel answered except those that were silent before."""
        missing = {at for at, each in enumerate(outcomes) if each is None}
        return missing <= self.silent and len(missing) < len(outcomes)

    def has_majority(self, outcomes: Sequence[Outcome]) -> bool:
        """Return True if a majority named a master."""
        return 2 * sum(isinstance(each, SentinelReply) for each in outcomes) > len(outcomes)

    def trusts(self, since: float) -> bool:
        """Return True if an answer counts by the rounds so far: proved, or no Sentinel answered.

        Sentinels that answered before and are too slow now may know of another master.
        """
        return self.asked_at >= since or self._all_silent

    def locating(self, now: float, until: float) -> tuple[float, float]:
        """Return since when a round must have begun to connect by it, and how long to wait.

        The known master is tried soon: if it is no longer the master, the next try knows better.
        """
        if self.reply is None:
            return now - SHARED_SECONDS, until
        recent = FRESH_SECONDS if self._all_silent else SHARED_SECONDS
        return now - recent, min(now + GRACE_SECONDS, (now + until) / 2)

    def master(self, outcomes: Sequence[Outcome]) -> SentinelReply:
        """Return the master's address; if it was never known, raise the outcome of the round."""
        if self.reply is not None:
            return self.reply
        errors = [each for each in outcomes if isinstance(each, Exception)]
        denied = next((error for error in errors if isinstance(error, ServerDenied)), None)
        if denied is not None:
            raise ServerDenied(
                f"a Sentinel refuses fencelock's request: {denied}", code=denied.code
            ) from denied
        label = self._service.label
        if any("unknown command" in str(error).lower() for error in errors):
            scheme = label.partition("+sentinel://")[0] if "+sentinel://" in label else "redis"
            raise ServerUnsuitable(f"{label}: this is no Sentinel: use {scheme}://")
        if errors and all("no such master" in str(error).lower() for error in errors):
            raise ServerUnsuitable(f"{label}: no Sentinel has a service of that name")
        detail = "; ".join(dict.fromkeys(map(str, errors))) or "no answer in time"
        raise ServerUnreachable(f"{label}: no Sentinel answers: {detail}", code="REFUSED")


def freshness(outcomes: Iterable[Outcome]) -> float:
    """Return how long a round counts in which the Sentinels replied so."""
    found = [each.fresh_for for each in outcomes if isinstance(each, SentinelReply)]
    return min(found, default=FRESH_SECONDS)


def proof_since(asked_at: float, answered_at: float, fresh_for: float) -> float:
    """Return when a round that counts for so long must have begun to prove an answer."""
    if answered_at - asked_at > SLOW_SECONDS:
        return answered_at
    return answered_at - fresh_for


def proof_timeout(now: float, until: float, far: float) -> float:
    """Return how long to wait for a proof: silent Sentinels must not take all of a call's time.

    ``far``: how long those need to answer that are so far away.
    """
    return max(now + _LAST_SECONDS, (now + until) / 2, min(until, now + far))


def demoted(service: SentinelService, error: ServerError) -> NoReply | None:
    """Translate a demoted master's READONLY error into NoReply; None for other errors."""
    if error.code not in _REPLICA:
        return None
    return NoReply(f"{service.label}: this is a replica now ({error})", sent=False)


def unreachable(service: SentinelService, error: ServerUnreachable) -> Exception:
    """Return the error for an unreachable master: a retry may find another one."""
    if error.code not in {"", "REFUSED"}:
        return error
    return NoReply(f"{service.label}: {error}", sent=False)


def check_role(service: SentinelService, hello: Any) -> None:
    """Raise NoReply when the greeting (HELLO's reply) is not that of a master."""
    role = hello.get(b"role", b"master") if isinstance(hello, dict) else b"master"
    if role != b"master":
        raise NoReply(f"{service.label}: it is not a master, but a {role.decode()}", sent=False)
