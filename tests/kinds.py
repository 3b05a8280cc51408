"""How a handle of each kind of object that is held is made, of a client of either face."""

MADE = {
    "lock": lambda client, **options: client.lock("a", **options),
    "rlock": lambda client, **options: client.rlock("a", **options),
    "owner": lambda client, **options: client.rlock("a", owner="me", **options),
    "semaphore": lambda client, **options: client.semaphore("a", 1, **options),
    "permits": lambda client, **options: client.semaphore("a", 2, **options).permits(2),
    "read": lambda client, **options: client.rwlock("a", **options).read,
    "write": lambda client, **options: client.rwlock("a", **options).write,
    "multi": lambda client, **options: client.multi(["a", "b"], **options),
}
