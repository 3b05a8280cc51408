"""One call of a script after the other, on a keyspace of the simulator.

What a script promises stands at its head and in docs/reference/keys.md. The tests that import this
check it name by name, key by key and argument by argument.
"""

import functools

from verification.simulator.commands import Keyspace
from verification.simulator.scripting import Program

HOME = b"home"
MINUTE, RECORD = 60_000, 600_000  # ms
PATIENCE = 7.0  # seconds without a proof of life: taken for dead


def keys(name, kinds="lock record queue alive holds revoked"):
    """Return the keys of a name, in the order in which the scripts want them."""
    return [b"%s~%s" % (name, kind.encode()) for kind in kinds.split()]


@functools.cache
def loaded(digest, script):
    """Return a script as a server has it: under its digest."""
    assert digest == script.digest
    return Program(script.source, script.name)


class Space:
    """A keyspace, the messages that were published in it, heard or not, and who does not listen."""

    def __init__(self):
        self.heard, self.deaf, self.unheard = [], set(), []
        self.keyspace = Keyspace(publish=self._publish, listeners=self._listeners)

    @property
    def now(self):
        """Return the server's clock, in microseconds."""
        return self.keyspace.now_us

    def run(self, script, keys, *args):
        return loaded(script.digest, script).run(self.keyspace, keys, args)

    def command(self, *words):
        return self.keyspace.command(*words)

    def ttls(self, *keys):
        """Return what is left of each key, in ms; -2 where there is none."""
        return [self.command(b"PTTL", key) for key in keys]

    def line(self, key):
        """Return the members of a sorted set, in order."""
        return self.command(b"ZRANGE", key, 0, -1)

    def score(self, key, member):
        found = self.command(b"ZSCORE", key, member)
        return None if found is None else int(float(found))

    def wait(self, seconds):
        self.keyspace.advance(seconds)

    def _publish(self, channel, message):
        (self.unheard if channel in self.deaf else self.heard).append((channel, message))
        return self._listeners(channel)

    def _listeners(self, channel):
        return int(channel not in self.deaf)
