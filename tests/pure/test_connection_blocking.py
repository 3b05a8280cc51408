"""_io/connection_blocking.py: what one call costs the kernel."""

import socket

from fencelock._io.connection_blocking import Connection
from fencelock._runtime.clock import now

SOON = 10.0


class Counting(socket.socket):
    """A socket that counts the options that are set; it is a plain one else."""

    options = 0

    def setsockopt(self, *how):
        self.options += 1
        return super().setsockopt(*how)


Counting.__module__ = "socket"


def test_the_timeout_of_the_kernel_is_set_once():
    near, theirs = socket.socketpair()
    ours = Counting(fileno=near.detach())
    connection = Connection(ours, lambda *_: None)
    for _ in range(3):
        theirs.sendall(b"+OK\r\n")
        assert connection.command((b"PING",), now() + SOON) == b"OK"
    assert ours.options == 1
    connection.close()
    theirs.close()
