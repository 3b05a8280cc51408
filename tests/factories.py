"""What a client makes, read from its signatures, for tests of every kind of object."""

import inspect

import fencelock

# A method of an asyncio client that is no coroutine function sends nothing: it makes something.
FACTORIES = tuple(
    name
    for name, method in inspect.getmembers(fencelock.AsyncClient, inspect.isfunction)
    if name[0] != "_" and not inspect.iscoroutinefunction(method)
)
# What ``locked`` makes is a decorator, and no object.
OBJECTS = tuple(name for name in FACTORIES if name != "locked")
# What else a factory cannot do without.
GIVEN = {"limit": 2, "count": 2, "parties": 1, "within": 60}


def make(client, factory, name="a"):
    """Return what a factory makes of a name, with its defaults."""
    given, call = {**GIVEN, "name": name, "names": [name]}, getattr(client, factory)
    wanted = inspect.signature(call).parameters.values()
    return call(**{each.name: given[each.name] for each in wanted if each.default is each.empty})
