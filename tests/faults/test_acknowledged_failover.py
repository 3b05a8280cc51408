"""The master dies while replicas are asked: whoever waits goes on at the promoted one."""

from tests.faults.conftest import load
from tests.faults.proxy import Proxy
from tests.faults.world import View, spawn, wait_until
from tests.replication import counted, follow, replicated

NAME = "lock"


def promote(new, other):
    new.command("REPLICAOF", "NO", "ONE")
    follow(other, new.port)
    counted(new, 1)


def test_a_failover_while_a_lease_is_held_and_waited_for(connect):
    """The holder keeps what replicas have; the next in line gets it by the release."""
    with replicated(2) as (master, new, other), Proxy(master) as proxy:
        load(master)
        holder = connect(proxy.url, replicas=1).lock(NAME, ttl=20)
        waiter = connect(proxy.url, replicas=1).lock(NAME, ttl=20)
        assert holder.acquire()
        lease = holder.lease
        waits = spawn(waiter.acquire, timeout=30)
        View(master, NAME).until_waiting(1)
        master.kill()
        promote(new, other)
        proxy.server = new
        proxy.drop_all()
        before = lease.deadline
        assert View(new, NAME).holder() == lease.holder
        wait_until(lambda: lease.deadline > before, 20, what="it is renewed at the promoted one")
        View(new, NAME).until_waiting(1)
        assert not waits.done()
        fence = lease.fence
        holder.release()
        assert waits.result(20) is True
        assert waiter.lease.fence > fence
        waiter.release()
        View(new, NAME).until_free()
