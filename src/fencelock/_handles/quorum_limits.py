"""Options and objects that a quorum of servers cannot support: refused before anything is sent."""

from __future__ import annotations

from typing import Final

# N servers with `limit` permits each have N * limit votes: enough for more than `limit` majorities.
WHY: Final = {
    "rwlock": "each server has a line of its own, so readers could keep a writer out for ever",
    "semaphore": "with 5 servers and a limit of 3, five holders could have three votes each",
    "Poll": "Poll has no line and no fence, which a quorum needs",
    "owner": "the count of an explicit owner's holds is on one server",
}
OTHERWISE: Final = "its state is on one server, and a majority cannot agree on it by votes"


def refuse(quorum: object, what: str) -> None:
    """Raise ValueError for ``what`` if there is a quorum."""
    if quorum:
        raise ValueError(
            f"{what} does not work over a quorum: {WHY.get(what, OTHERWISE)};"
            f" use lock, rlock without owner or locked there, or {what} with one server,"
            " Sentinels or a Cluster"
        )
