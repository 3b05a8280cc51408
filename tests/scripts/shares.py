"""The scripts of semaphores and reader/writer locks, as tests call them."""

from fencelock import scripts
from fencelock.scripts.layout import words_of, written
from tests.scripts.calls import HOME, keys
from tests.scripts.lock import place

A = keys(b"a")
LIMIT = 3
SHORT = 7000  # the first lease of a waiter of another client, ms
APART = 9000  # how long holds stand apart from the record when a holder has asked again, ms


def options(permits=1, ttl=9000, client_channel=HOME):
    words = {"ttl": b"%d" % ttl, "handoff_ttl": b"%d" % SHORT, "permits": b"p%d" % permits}
    return written("share_options", **words, client=client_channel, info=b"{}")


def entry(who, permits=1, **kwargs):
    return place(who) + options(permits, **kwargs)


def acquire(
    space,
    who,
    permits=1,
    *,
    name=A,
    line=True,
    limit=LIMIT,
    kind=b"semaphore",
    nested_under=b"",
    **kwargs,
):
    """Ask for permits, or for a place in line."""
    said = (options(permits, **kwargs), kind, limit, nested_under)
    mine = place(who) if line else b""
    return space.run(scripts.SHARES_ACQUIRE, name[:5], who, mine, *said)


def release(space, who, keep=0, client_channel=HOME, name=A):
    return space.run(scripts.SHARES_RELEASE, name, who, client_channel, keep)


def alive(space, *names, client_channel=HOME):
    words = [word for _, entries in names for word in (len(entries), *entries)]
    wanted = [key for name, _ in names for key in name[:5]]
    return space.run(scripts.SHARES_HEARTBEAT, wanted, client_channel, *words)


def fence(space):
    return taken(space)[0]


def taken(space, name=A):
    """Return fence, limit in force and permits that are out; without a lock none is."""
    head = space.command(b"GET", name[1]).partition(b"\n")[0]
    words = words_of("shares", head)
    fence, limit, out = (int(words[each]) for each in ("fence", "limit", "taken"))
    return fence, limit, out if space.command(b"EXISTS", name[0]) else 0


def holds_of(space, name=A):
    """Return the holds by holder: those in the record, and the others."""
    _, *recorded = space.command(b"GET", name[1]).split(b"\n")
    apart = space.command(b"HGETALL", name[4])
    holds = dict(zip(apart[::2], apart[1::2], strict=True))
    assert holds.keys().isdisjoint(line.split(b" ")[0] for line in recorded)
    return holds | dict(line.split(b" ", 1) for line in recorded)


def holders(space, name=A):
    """Return the holders; each has a hold, and no other has."""
    found = space.line(name[0])
    assert not found or holds_of(space, name).keys() == set(found)
    assert found or not space.command(b"EXISTS", name[4])
    return found


def leases(space):
    """Return what each holder has left, in ms; all permits that are out are theirs."""
    out = sum(int(hold.split()[0]) for hold in holds_of(space).values())
    assert taken(space)[2] == out
    return {who: (space.score(A[0], who) - space.now) // 1000 for who in holders(space)}
