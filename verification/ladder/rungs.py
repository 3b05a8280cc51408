"""The versions, in the order in which they were invented, and what is to be broken in each."""

from dataclasses import dataclass

from verification.ladder import locks, several, sides
from verification.ladder.judge import FOR_EVER, FOREIGN, MOVED, OVER, REFUSED, TWO
from verification.ladder.rung import Break, Rung, Uses
from verification.ladder.user import User
from verification.simulator.simulation import World

TTL = locks.TTL
SHORT, LONG = 0.5 * TTL, 1.5 * TTL  # work that is shorter, or longer, than a lease
THIRD = 0.3 * TTL  # of a lease, and a little before it


@dataclass(frozen=True)
class HoldsTwo:
    """A process that holds x and y through one object, and is done with x first."""

    flag: str | None = "renewing"  # what says for both whether to renew

    def mended(self, _: object) -> "HoldsTwo":
        """Return the same with a flag for each lock."""
        return HoldsTwo(flag=None)

    def __call__(self, world: World) -> None:
        user = User(world)
        x, y = (locks.Renewed(name, every=THIRD, flag=self.flag) for name in (b"x", b"y"))
        user.begin(self.life(user, x, y))

    async def life(self, user: User, x: locks.Renewed, y: locks.Renewed) -> None:
        if await y.acquire(user):
            user.claims(y)
            await user.life(x, work=SHORT)
            await user.work(y, 2.0)

    def __str__(self) -> str:
        return "works 0.5 s under x and 2.5 s under y"


RUNGS = (
    Rung(
        "EXISTS then SET, DEL",
        "Check whether the key exists; if it does not, set it. Delete it when the work is done.",
        (
            Break(
                TWO,
                (Uses(locks.ExistsSet, work=SHORT),) * 2,
                "Two processes check before either has set the key.",
                mended=lambda _: locks.Setnx(),
            ),
        ),
        "Check and set in one command: `SETNX`.",
    ),
    Rung(
        "SETNX, DEL",
        "`SETNX` sets the key only if it does not exist. It is one command, so no other process can"
        " come in between.",
        (
            Break(
                FOR_EVER,
                (Uses(locks.Setnx, work=SHORT),) * 2,
                "The holder dies, and no other process may delete the key.",
                mended=lambda _: locks.ScriptSet(),
            ),
        ),
        "Let the key expire by itself: `EXPIRE`.",
    ),
    Rung(
        "SETNX + EXPIRE, DEL",
        "The process that has set the key gives it a time to live.",
        (
            Break(
                FOR_EVER,
                (Uses(locks.SetnxExpire, work=SHORT),) * 2,
                "The process dies after it has set the key, and before it sets the expiry.",
                mended=lambda _: locks.ScriptSet(),
            ),
        ),
        "Either a deadline inside the value (next), or both commands in one script (after it).",
    ),
    Rung(
        "SETNX of a deadline, GETSET to take over",
        "The value is the instant at which the lock ends, by the client's clock. A process that"
        " finds it over by more than a tolerance of 1 s writes a new value with `GETSET`. It has"
        " the lock if `GETSET` returns the value that it had found.",
        (
            Break(
                TWO,
                (
                    Uses(locks.Getset, work=SHORT),
                    Uses(locks.Getset, work=SHORT, clock=TTL + locks.TOLERANCE + 0.5),
                ),
                "B's clock is 2.5 s ahead: to B the lease is over while A works.",
                mended=lambda _: locks.ScriptSet(),
                timeless=False,
            ),
            Break(
                MOVED,
                (
                    Uses(locks.Getset, work=SHORT),
                    Uses(locks.Getset, work=SHORT, after=2.5),
                    Uses(locks.Getset, work=SHORT, after=2.5, clock=0.1),
                ),
                "All clocks agree within 0.1 s. The process that loses the `GETSET` has already"
                " overwritten the winner's deadline.",
                mended=lambda _: locks.ScriptSet(),
                timeless=False,
            ),
            Break(
                FOREIGN,
                (
                    Uses(locks.Getset, work=2.8),
                    Uses(locks.Getset, work=SHORT, after=2.5),
                ),
                "A works longer than its lease; its `DEL` does not check whose lock it deletes.",
                timeless=False,
            ),
        ),
        "Use no client's clock: let the server expire the key, and set key and expiry in one step.",
    ),
    Rung(
        "SETNX and EXPIRE in a script, DEL",
        "A script runs as one atomic step: there is no key without an expiry.",
        (
            Break(
                FOREIGN,
                (Uses(locks.ScriptSet, work=LONG), Uses(locks.ScriptSet, work=SHORT, after=1.2)),
                "A works longer than its lease, and then deletes the lock, which B holds by now.",
                mended=lambda _: locks.CompareDelete(),
            ),
        ),
        "Write a unique value, and delete the key only if it still has that value.",
    ),
    Rung(
        "SET NX EX, then GET, compare, DEL",
        "The value says whose lock it is; a release checks it first.",
        (
            Break(
                FOREIGN,
                (Uses(locks.Owned, work=SHORT), Uses(locks.Owned, work=SHORT, after=1.2)),
                "The lease ends between the check and the `DEL`.",
                mended=lambda _: locks.CompareDelete(),
            ),
        ),
        "Compare and delete in one script.",
    ),
    Rung(
        "SET NX EX with the thread's id",
        "The value is the id of the thread, so that a thread recognises its own lock."
        " One script compares and deletes.",
        (
            Break(
                FOREIGN,
                (Uses(locks.ByThread, work=LONG), Uses(locks.ByThread, work=SHORT, after=1.2)),
                "Two hosts have a thread with that id: A's late release finds its own id, written"
                " by B.",
                mended=lambda _: locks.CompareDelete(),
            ),
        ),
        "An unguessable value, new for each acquisition.",
    ),
    Rung(
        "SET NX EX, compare-and-delete script",
        "What most libraries do: one command to acquire, one script to release.",
        (
            Break(
                TWO,
                (
                    Uses(locks.CompareDelete, work=LONG),
                    Uses(locks.CompareDelete, work=SHORT, after=1.2),
                ),
                "A works longer than its lease, and is not notified.",
                mended=lambda _: locks.Renewed(every=THIRD),
                mended_faults={"crash": 1},
            ),
        ),
        "Renew the lease as long as the holder is alive.",
    ),
    Rung(
        "The same, renewed every ttl seconds",
        "A timer renews the lease at the moment at which it would end.",
        (
            Break(
                TWO,
                (
                    Uses(lambda: locks.Renewed(every=TTL), work=LONG),
                    Uses(lambda: locks.Renewed(every=TTL), work=SHORT, after=1.2),
                ),
                "The renewal is still on its way when the lease ends: it arrives too late.",
                {"late": 1},
            ),
            Break(
                OVER,
                (Uses(lambda: locks.Renewed(every=TTL), work=LONG),),
                "Even without contention: the lease ends before it is renewed, and A works on.",
                {"late": 1},
            ),
        ),
        "Renew well before the end, every third of the ttl, so that there is time to retry; and"
        " notify the holder if the lease ends anyway.",
    ),
    Rung(
        "The same, renewed in time, one flag for all locks of an object",
        "Every third of the ttl a timer renews the lease, while a field of the object says so.",
        (
            Break(
                TWO,
                (HoldsTwo(), Uses(lambda: locks.Renewed(b"y", every=THIRD), work=SHORT, after=1.8)),
                "A holds x and y through one object. Releasing x stops the renewal of y.",
                mended=lambda old: old,
                mended_faults={"crash": 1},
            ),
        ),
        "A separate renewal for each acquisition, identified by its own value.",
    ),
    Rung(
        "Reader/writer lock with two keys",
        "One key says that there is a reader, another that there is a writer; scripts check both.",
        (
            Break(
                TWO,
                (
                    Uses(lambda: sides.TwoKeys("read"), work=SHORT),
                    Uses(lambda: sides.TwoKeys("read"), work=0.8),
                    Uses(lambda: sides.TwoKeys("write"), work=SHORT, after=0.6),
                ),
                "A's `DEL` also removes the key that says that B reads.",
                mended=lambda old: sides.OwnEntries(old.side, ttl=TTL),
            ),
            Break(
                REFUSED,
                (Uses(lambda: sides.TwoKeys("read"), work=SHORT),),
                "In a Cluster the two keys are in two slots, and a script may use only one slot.",
                {},
                cluster=True,
                mended=lambda old: sides.OwnEntries(old.side, ttl=TTL),
            ),
        ),
        "An entry for each reader, and all keys in one slot.",
    ),
    Rung(
        "Reader/writer lock with one deadline for each side",
        "One hash with two deadlines by the server's clock, for the readers and for the writer."
        " A process that leaves clears the deadline if it is still its own.",
        (
            Break(
                TWO,
                (
                    Uses(lambda: sides.OneDeadline("read", ttl=1.0), work=0.9),
                    Uses(lambda: sides.OneDeadline("read", ttl=0.4), work=0.2),
                    Uses(lambda: sides.OneDeadline("write", ttl=1.0), work=SHORT, after=0.5),
                ),
                "B's deadline replaces A's, which was later.",
                mended=lambda old: sides.OwnEntries(old.side.decode(), ttl=old.ttl_ms / 1000),
            ),
        ),
        "An entry with its own deadline for each reader.",
    ),
    Rung(
        "One master with an asynchronous replica",
        "The best lock so far (unique value, scripts, renewed in time), and a replica in case the"
        " server dies.",
        (
            Break(
                TWO,
                (
                    Uses(lambda: locks.Renewed(every=THIRD), work=SHORT),
                    Uses(lambda: locks.Renewed(every=THIRD), work=SHORT, after=0.2),
                ),
                "The replica is promoted before it receives the lock.",
                {"failover": 1},
                replicated=True,
            ),
        ),
        "Wait for replicas (`WAIT`), ask a majority, or let the protected resource check a fence.",
    ),
    Rung(
        "Redlock",
        "The same key on independent servers (here three). A process that has a majority holds the"
        " lock, for the ttl minus the time that its requests took, minus drift.",
        (
            Break(
                TWO,
                (Uses(several.Redlock, work=SHORT),) * 2,
                "One node restarts without persistence and votes twice: both have a majority.",
                {"restart": 1, "lost": 1},
                nodes=3,
            ),
            Break(
                TWO,
                (Uses(several.Redlock, work=SHORT),) * 2,
                "The clock of one node jumps forward: it gives B the vote that A still counts on.",
                {"jump": 1, "lost": 1},
                nodes=3,
            ),
        ),
        "Persist before answering, or keep a restarted node out for a ttl; do not set clocks."
        " And give each grant a fence, which the protected resource checks.",
    ),
)
