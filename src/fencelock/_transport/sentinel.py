"""A service that Sentinels watch: what they say of its master, and when an answer of it counts.

Rules of this file:

- What a Sentinel says carries its config-epoch, which grows with every failover: the highest wins,
  so that a Sentinel that was cut off brings nobody back to an old master.
- An old master that was frozen or cut off takes writes for seconds after it came back. So its
  answers count only while it is fresh knowledge that it is the master: asked for at most a second
  before the answer came, and after it when the answer took long.
- No Sentinel reachable: what was known last is believed on. Locks stay usable then; only a failover
  that happens meanwhile goes unseen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fencelock._core.types import Broken
from fencelock._transport.source import Cloned, Direct
from fencelock.errors import ServerDenied, ServerError, ServerUnreachable, ServerUnsuitable

# Each Sentinel gets this long to answer.
ANSWER_SECONDS = 0.5
# Once most have answered, the others get this much longer: a dead host would cost half a second.
GRACE_SECONDS = 0.1
# How long knowledge lasts: no failover is over sooner after a Sentinel has found nothing wrong.
FRESH_SECONDS = 1.0
# While a Sentinel finds something wrong. Each answer would cost a question otherwise.
DOUBT_SECONDS = 0.1
# An answer that took longer may have waited in a frozen server: it needs a question after it.
SLOW_SECONDS = 0.5
# Connections that are opened at once share a round that began this recently.
SHARED_SECONDS = 0.1
# A silent master gets this long to greet; then the Sentinels are asked again.
CONNECT_SECONDS = 1.0
# A caller whose time is up leaves a last question this much, within the 100 ms of I13.
_LAST_SECONDS = 0.05
# Sentinels that were set up anew count epochs from 0 again: the old count is forgotten after this.
FORGET_SECONDS = 10.0
_WRONG = ("s_down", "o_down", "failover_in_progress")
_REPLICA = frozenset({"READONLY", "MASTERDOWN"})


class Watched(NamedTuple):
    """A service behind Sentinels: how to reach each of them, and the master once it is known.

    ``master`` has the credentials; its host and port are put in. ``host``: always this one.
    """

    sentinels: tuple[Direct | Cloned, ...]
    service: str
    master: Direct | Cloned
    label: str
    host: str = ""

    def at(self, word: Word) -> Direct | Cloned:
        """Return how to reach the master that a Sentinel named."""
        host = self.host or word.host
        if isinstance(self.master, Direct):
            address = self.master.locate(0.0)._replace(host=host, port=word.port)
            return Direct(lambda _: address, str(address))
        where = {"host": host, "port": word.port}
        label = f"{self.label}: {host}:{word.port}"
        return self.master._replace(settings=self.master.settings | where, label=label)

    def questions(self) -> tuple[tuple[bytes, ...], ...]:
        """Return what a Sentinel is asked: the epoch first.

        While it leads a failover, MASTER has the new epoch and still the old address.
        """
        name = self.service.encode()
        return (b"SENTINEL", b"MASTER", name), (b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name)


class Word(NamedTuple):
    """What one Sentinel says: who is the master since which epoch; ``doubt``: it seems down."""

    epoch: int
    host: str
    port: int
    doubt: bool = False

    @property
    def where(self) -> tuple[str, int]:
        """Return the address that is named."""
        return self.host, self.port


def understood(master: Any, address: Any) -> Word:
    """Return the answers to ``Watched.questions`` as one word; ServerUnsuitable for others.

    A Sentinel that has promoted a replica names it, and still lists the old master and its state:
    that is no reason to doubt the new one.
    """
    facts = (
        master if isinstance(master, dict) else dict(zip(master[::2], master[1::2], strict=True))
    )
    try:
        host, port = address
        flags = facts[b"flags"].decode().split(",")
        listed = facts.get(b"ip", host), facts.get(b"port", port)
        doubt = listed == (host, port) and any(flag in _WRONG for flag in flags)
        return Word(int(facts[b"config-epoch"]), host.decode(), int(port), doubt)
    except (TypeError, ValueError, KeyError) as error:
        raise ServerUnsuitable(f"not a Sentinel's answer: {master!r} {address!r}") from error


class Known:
    """What is known of one service. Plain decisions; the caller keeps threads apart."""

    def __init__(self, source: Watched) -> None:
        self._source = source
        self._fresh_for = FRESH_SECONDS
        self.word: Word | None = None
        self.term = 0  # grows with each master: what is older than a failover is told by it
        self.asked_at = float("-inf")  # when the last round of questions began
        self.silent: frozenset[int] = frozenset()  # who did not answer then: nobody waits for them
        self._deaf = False  # nobody said anything in the last round
        self._heard_at = 0.0  # when a Sentinel last confirmed the word

    def learn(self, words: Iterable[Word], began: float) -> None:
        """Take what the Sentinels said so far in a round that began then."""
        said = list(words)
        if not said:
            return
        votes = Counter((word.epoch, *word.where) for word in said)
        best = max(said, key=lambda word: (word.epoch, votes[word.epoch, *word.where]))
        known = self.word
        if known is None or best.epoch > known.epoch:
            self.term += 1
        elif best[:3] != known[:3] and not self._set_up_anew(best, said, began):
            return
        elif best.where != known.where:
            self.term += 1
        self.word, self._heard_at = best, began

    def _set_up_anew(self, best: Word, said: Sequence[Word], began: float) -> bool:
        """Return True if most Sentinels agree on something that does not follow what was known.

        They forgot their epoch, then: what was known must not have been heard of for a while.
        """
        agreed = sum(word.where == best.where for word in said)
        if 2 * agreed <= len(self._source.sentinels):
            return False
        known = self.word
        return known is None or best.epoch == known.epoch or began - self._heard_at > FORGET_SECONDS

    def heard(self, at: int, word: Word | Exception | None) -> None:
        """Note that one Sentinel has answered, maybe too late for its round: it is not silent."""
        if word is not None:
            self.silent -= {at}

    def end_round(self, began: float, words: Sequence[Word | Exception | None]) -> None:
        """Note that a round is over, and who was silent in it."""
        if began < self.asked_at:
            return
        self.asked_at = began
        self.silent = frozenset(at for at, word in enumerate(words) if word is None)
        self._deaf = not any(isinstance(word, Word) for word in words)
        doubt = any(isinstance(word, Word) and word.doubt for word in words)
        self._fresh_for = DOUBT_SECONDS if doubt else FRESH_SECONDS

    def enough(self, words: Sequence[Word | Exception | None]) -> bool:
        """Return True if all answered who are expected to."""
        missing = {at for at, word in enumerate(words) if word is None}
        return missing <= self.silent and len(missing) < len(words)

    def most(self, words: Sequence[Word | Exception | None]) -> bool:
        """Return True if a majority said where the master is."""
        return 2 * sum(isinstance(word, Word) for word in words) > len(words)

    def since(self, asked_at: float, answered_at: float) -> float:
        """Return when a round must have begun to prove an answer of the master."""
        slow = answered_at - asked_at > SLOW_SECONDS
        return answered_at if slow else answered_at - self._fresh_for

    def locating(self, now: float, until: float) -> tuple[float, float]:
        """Return how late a round must have begun to connect by it, and how long to wait for it.

        The master that is known is tried soon: if it is none any more, the next try knows better.
        """
        if self.word is None:
            return now - SHARED_SECONDS, until
        recent = FRESH_SECONDS if self._deaf else SHARED_SECONDS
        return now - recent, min(now + GRACE_SECONDS, (now + until) / 2)

    def check(self, term: int) -> None:
        """Raise Broken when there is another master than the one of this term."""
        if term != self.term:
            raise Broken(f"{self._source.label}: there is another master now", sent=True)

    def master(self, words: Sequence[Word | Exception | None]) -> Word:
        """Return where the master is; raise what the round came to when nobody ever said."""
        if self.word is not None:
            return self.word
        errors = [word for word in words if isinstance(word, Exception)]
        denied = next((error for error in errors if isinstance(error, ServerDenied)), None)
        if denied is not None:
            raise ServerDenied(
                f"a Sentinel refuses fencelock's request: {denied}", code=denied.code
            ) from denied
        label = self._source.label
        if errors and all(_unknown(error) for error in errors):
            raise ServerUnsuitable(f"{label}: no Sentinel has a service of that name")
        detail = "; ".join(dict.fromkeys(map(str, errors))) or "no answer in time"
        raise ServerUnreachable(f"{label}: no Sentinel answers: {detail}", code="REFUSED")


def _unknown(error: Exception) -> bool:
    return "no such master" in str(error).lower()


def patience(now: float, until: float) -> float:
    """Return how long to wait for a proof: silent Sentinels must not take all of a call's time."""
    return max(now + _LAST_SECONDS, (now + until) / 2)


def not_now(source: Watched, error: ServerError) -> Broken | None:
    """Return what the refusal of a master that is none any more means; None for all others."""
    if error.code not in _REPLICA:
        return None
    broken = Broken(f"{source.label}: this is a replica now ({error})", sent=False)
    broken.__cause__ = error
    return broken


def unconnected(source: Watched, error: ServerUnreachable) -> Exception:
    """Return what it means that the named master cannot be reached: ask again, it may change."""
    if error.code not in {"", "REFUSED"}:
        return error
    broken = Broken(f"{source.label}: {error}", sent=False)
    broken.__cause__ = error
    return broken


def greeted(source: Watched, hello: Any) -> None:
    """Raise Broken when the greeting (HELLO's reply) is not that of a master."""
    role = hello.get(b"role", b"master") if isinstance(hello, dict) else b"master"
    if role != b"master":
        raise Broken(f"{source.label}: it is not a master, but a {role.decode()}", sent=False)
