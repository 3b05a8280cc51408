"""The scripts of a lock, as tests call them."""

from fencelock import scripts
from fencelock.scripts.layout import written
from tests.scripts.calls import HOME, RECORD, keys

A = keys(b"a")
APART = -2  # how long holds stand apart from the record when a holder has asked again: they do not


def options(ttl=9000, handoff_ttl=7000, owned=0, client_channel=HOME, info=b"{}"):
    words = {"ttl": b"%d" % ttl, "handoff_ttl": b"%d" % handoff_ttl, "owned": b"%d" % owned}
    return written("options", **words, client=client_channel, info=info)


def place(who, owner=None):
    """Return the words of an entry before its options: it listens to a channel of its own."""
    return written("entry", waiter=who, holder=owner or who, channel=b"c-" + who) + b" "


def entry(who, owner=None, **kwargs):
    return place(who, owner) + options(owned=int(owner is not None), **kwargs)


def acquire(space, who, name=A, *, ttl=9000, line=True, owner=None, **kwargs):
    """Ask for the lock, or for a place in line."""
    said = options(ttl, owned=int(owner is not None), **kwargs)
    mine = place(who, owner) if line else b""
    args = (owner or who, mine, ttl, RECORD + ttl, said)
    return space.run(scripts.ACQUIRE, name[:5], *args, *([who] if owner else []))


def release(space, who, client_channel=HOME, name=A):
    return space.run(scripts.RELEASE, name, who, client_channel)


def alive(space, *names, client_channel=HOME):
    """Prove that the waiters of a client live; each name is (keys, entries).

    Of each waiter it says how many of its client wait for its place.
    """
    words = []
    for _, entries in names:
        said = [b"n %s 2" % each.split()[0] for each in entries]
        words += (len(entries), *entries, len(said), *said)
    wanted = [key for name, _ in names for key in name[:5]]
    return space.run(scripts.HEARTBEAT, wanted, client_channel, *words)


def take_away(space, keys, number=None):
    """Take a lock from its holder, by an operator's word."""
    space.wait(0.001)
    number = b"%d" % space.now if number is None else number
    return space.run(scripts.BREAK, keys, b"a word", 5000, number)


def fence(space, name=A):
    return int(space.command(b"GET", name[1]).split()[0])


def whose(space, name=A):
    """Return how an answer to a waiter names the holder."""
    return b"%d {}" % fence(space, name)


def leases(space):
    """Return what each holder has left, in ms."""
    holder = space.command(b"GET", A[0])
    return {holder: space.ttls(A[0])[0]} if holder else {}
