"""One of everything that a client makes."""


def made_by(client):
    """Return one of everything that a client makes, and the client."""
    lock, both = client.lock("a"), client.rwlock("rw")
    yield from (client, lock, client.rlock("r"), both, both.read, both.write)
    yield from (client.semaphore("s", 2), client.bounded_semaphore("b", 2))
    yield from (client.event("e"), client.latch("l", 2), client.barrier("n", 2))
    yield from (client.condition(lock), client.multi(["x", "y"]), client.election("leader"))
    yield client.once("o", within=60)
