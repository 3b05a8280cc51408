"""A real replica behind a valve: it gets its master's writes only when it is told to."""

import contextlib
import socket
import threading
import time

from tests import servers

WAIT_SECONDS = 10.0


class Valve:
    """Carries a replica's stream; what the master sends waits while it is shut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.open = threading.Event()
        self.open.set()
        self._lines: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                replica, _ = self._listener.accept()
                master = socket.create_connection(("127.0.0.1", self._port))
                self._lines += [replica, master]
                for one, other, shut in ((replica, master, False), (master, replica, True)):
                    words = (one, other, shut)
                    threading.Thread(target=self._carry, args=words, daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket, valve: bool) -> None:  # noqa: FBT001 - which way it goes
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                if valve:
                    self.open.wait()
                other.sendall(data)

    def close(self) -> None:
        """End it; what was held back is gone."""
        for line in (self._listener, *self._lines):
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()
        self.open.set()


class Follower:
    """A replica of a server, with the valve between them shut."""

    def __init__(self, master: servers.Server, binary: servers.ServerBinary | None = None) -> None:
        self._master = master
        self._valve = Valve(master.port)
        self._replica = servers.Server(binary)
        try:
            self._replica.__enter__()
            self._replica.command("REPLICAOF", "127.0.0.1", self._valve.port)
            self.catch_up()
        except BaseException:
            self.close()
            raise

    def catch_up(self) -> None:
        """Let it get everything that the master has by now, and nothing more."""
        self._valve.open.set()
        offset = int(self._master.info("replication")["master_repl_offset"])
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._has(offset):
            if time.monotonic() >= deadline:
                raise TimeoutError("the replica does not follow")
            time.sleep(0.002)
        self._valve.open.clear()

    def _has(self, offset: int) -> bool:
        info = self._replica.info("replication")
        up = info.get("master_link_status") == "up"
        return up and int(info.get("slave_repl_offset", -1)) >= offset

    def promote(self) -> servers.Server:
        """Make it a master with what it has, and return it."""
        self._valve.close()
        self._replica.command("REPLICAOF", "NO", "ONE")
        return self._replica

    def close(self) -> None:
        """End it."""
        self._valve.close()
        self._replica.close()
