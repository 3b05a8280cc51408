"""Faults sown into the flows and scripts of a quorum; see seeded.py."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fencelock._core.quorum import (
    acquire,
    attempt,
    maintain,
    membership,
    votes,
)
from fencelock._core.quorum import (
    lease as quorum_hold,
)
from tests.flows import quorums as worlds
from tests.flows.seeded import Change, script, seed


@dataclass(frozen=True)
class Several:
    """Several changes, where one does what the others leave out."""

    where: Any
    changes: tuple[Change, ...]

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        with contextlib.ExitStack() as all_of_them:
            for change in self.changes:
                all_of_them.enter_context(change.applied())
            yield


def several(where: Any, *changes: Change) -> Several:
    return Several(where, changes)


SEEDS = (
    seed(
        "a quorum: one node of three counts as a majority",
        Change(votes, "return nodes // 2 + 1", "return nodes // 2"),
        worlds.TRIES.under(silent=1),
        "I1 I2 I3",
    ),
    seed(
        "a quorum: a node votes for two clients at once",
        script("quorum_vote", "if current and current ~= holder then", "if false then"),
        worlds.ABSENT.under(silent=1),
        "I1 I2 I11",
    ),
    seed(
        "a quorum: the largest fence stays on the node that gave it",
        Change(acquire, "if lacking <= 0:", "if low:"),
        worlds.ALONE_TWICE.under(silent=1),
        "I3",
    ),
    seed(
        "a quorum: a fence is not written back",
        script("raise_fence", "if tonumber(last) < fence then", "if false then"),
        worlds.ALONE_TWICE.under(silent=1),
        "I3",
    ),
    seed(
        "a quorum: a node that was restarted votes at once",
        Change(membership.Membership, "if now < self._forgets", "if 0 > self._forgets"),
        worlds.ABSENT.under(restart=1),
        "I1",
        daily="quorum",
    ),
    seed(
        "a quorum: the vote of a node that was restarted meanwhile counts",
        Change(acquire, "gone = port.membership.without_vote(grants)", "gone = []"),
        worlds.ABSENT.under(restart=1),
        "I1",
    ),
    seed(
        "a quorum: an id that was given up is used again",
        Change(
            attempt.QuorumAttempt,
            "self.request.waiter = self.request.holder = self.port.new_id()",
            "pass",
        ),
        worlds.ALONE_WORKING.under(late=1, down=1).threads(),
        "I1 I2 I4",
    ),
    seed(
        "a quorum: a node is reacquired with an id that was given up there",
        Change(maintain, "request.waiter = request.holder = parts.another_id()", "pass"),
        worlds.ALONE_LONG.under(late=1).threads(),
        "I1 I2",
    ),
    seed(
        "a quorum: partial grants are not released",
        Change(acquire, "await _give_back(quorum_attempt, grants)", "pass"),
        worlds.ABSENT.under(silent=1),
        "I6 I9",
    ),
    seed(
        "a quorum: a silent node is not undone after a grant",
        Change(
            acquire,
            "undo(port, [ask for ask in asks if ask.node not in grants], all_of_them=True)",
            "pass",
        ),
        worlds.TWO.under(late=1),
        "I9",
        daily="quorum",
    ),
    seed(
        "a quorum: votes are not undone after a cancellation",
        Change(acquire, "undo(port, asks, all_of_them=True)\n        for node", "for node"),
        worlds.ALONE.under(cancel=1).threads(),
        "I9",
    ),
    seed(
        "a quorum: a release without a reply is not repeated",
        Change(maintain, "retry_in_background(port, asks)", "pass"),
        worlds.ALONE.under(silent=1),
        "I9",
    ),
    seed(
        "a quorum: a vote counts from its reply",
        Change(
            attempt.QuorumAttempt, "ask.asked_at + validity(ttl)", "ask.answered_at + validity(ttl)"
        ),
        worlds.ALONE_FIXED.under(late=2),
        "I2",
    ),
    seed(
        "a quorum: a renewal by hand counts from its reply",
        Change(maintain, "[renewal.ttl], ask.asked_at", "[renewal.ttl], ask.answered_at"),
        worlds.ALONE_BY_HAND.under(late=2),
        "I2",
    ),
    seed(
        "a quorum: a lost majority is not reported",
        several(
            maintain,
            Change(maintain, "lose(port, hold, hold.end, hold.deadline)", "pass"),
            Change(quorum_hold.Majority, "hold.lose(hold.end, hold.deadline)", "pass"),
        ),
        worlds.ALONE_OF_TWO.under(down=1),
        "I6 I8",
    ),
    seed(
        "a quorum: what is left of a lost lease is given back while the body works",
        Change(quorum_hold.Majority, 'if reason == "revoked":', "if True:"),
        worlds.BARE.under(restart=1),
        "I1",
    ),
    seed(
        "a quorum: a hold is not renewed, nor its parts watched, after a node was reacquired",
        several(
            maintain,
            Change(maintain, "if hold.open and not hold.notified:", "if False:"),
            Change(
                quorum_hold.Majority,
                "if not whole.open or whole.notified or hold",
                "if True or hold",
            ),
            Change(quorum_hold.Majority, "hold.lose(hold.end, hold.deadline)", "pass"),
        ),
        worlds.ALONE_OF_TWO.under(down=1),
        "I8",
    ),
    seed(
        "a quorum: a vote whose fence is the first node's, though a later one was given",
        script("quorum_vote", "if last and not (last < now", "if false and not (last < now"),
        worlds.LATE,
        "I3",
    ),
    seed(
        "a quorum: a timeout does not end the rounds",
        Change(acquire, "if at_once or now >= give_up_at:", "if at_once:"),
        worlds.IMPATIENT,
        "I6 I13",
        daily="quorum",
    ),
    seed(
        "a quorum: a client that waits for a majority never retries",
        Change(
            acquire, "pause = retry_delay(quorum_attempt.rounds, port.jitter())", "pause = 50.0"
        ),
        worlds.TWO.under(late=1),
        "I6",
    ),
    seed(
        "a quorum: a vote without an end",
        script(
            "quorum_vote",
            "call('SET', KEYS[1], holder, 'PX', ARGV[2])",
            "call('SET', KEYS[1], holder)",
        ),
        worlds.ALONE,
        "I10",
    ),
    seed(
        "a quorum: data read before a restart decides which nodes may vote after it",
        Change(membership.Membership, "self.heard = set()  # what was", "pass  # what was"),
        worlds.UNLIKE.under(restart=1),
        "I1",
    ),
    seed(
        "a quorum: the longest ttl is overwritten by the last",
        script("membership", "math.max(longest, tonumber(ARGV[2]))", "tonumber(ARGV[2])"),
        worlds.UNLIKE_MET.under(restart=1),
        "I1",
    ),
    seed(
        "a quorum: a claim is given up while its lease is held",
        Change(membership.Membership, "if self.claimants or not", "if not"),
        worlds.CLAIMED.under(restart=1),
        "I1 I2 I8 L",
    ),
    seed(
        "a quorum: the claim of a lease that was released stays",
        Change(membership.Membership, "if self.claimants or not self.claim_asked_ttl:", "if True:"),
        worlds.RELEASED.under(restart=1),
        "I6",
    ),
)
