"""One blocking connection, read by the thread that waits on it, and how it is opened.

A thread that waits for its turn reads its own socket: the kernel wakes exactly that thread, and no
other thread has to pass the message on. A receive has a short kernel timeout (SO_RCVTIMEO) that is
long enough for a usual answer, so that a usual call costs one send and one receive. Python restarts
the receive after every signal whose handler returns, so the timeout must be short: frequent signals
would extend it for ever. A later answer is waited for by ``poll``, which continues with the time
that is left. On Windows such a timeout may lose data: there each answer is waited for.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence

from fencelock._core.round_trips import NOTED_SECONDS, RoundTrips
from fencelock._core.types import DEMOTED, Carrier, NoReply, Reply
from fencelock._io.connect import RESOLVER, Found, connecting, greet, open_socket, refusal, worked
from fencelock._io.poll import POLLIN, POLLOUT, Poller, poller
from fencelock._io.sources.kinds import Bridged, Cloned, Direct, One, instead_of
from fencelock._io.sources.url import GREETING
from fencelock._io.threads import run_inline
from fencelock._io.wire import (
    ANSWERS,
    INCOMPLETE,
    Push,
    ReplyError,
    pack,
    reader,
    server_error,
    unknown_script,
)
from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.descriptors import close, own
from fencelock._runtime.process import mark, patched
from fencelock._runtime.typed import Any
from fencelock.errors import ServerError
from fencelock.scripts import with_source

RECV_BYTES = 65536
# Shortest non-zero receive timeout; some kernels round it up to 8 ms.
SETTLE_SECONDS = 0.001
SEND_SECONDS = 1.0
PING = pack((b"PING",))
_KERNEL_TIMEOUTS: bool = sys.platform != "win32"


class Connection(Carrier):
    """A private connection: send, read, and nothing after a failure.

    ``pushed`` is called with every push message, by the thread that reads.
    """

    def __init__(
        self, sock: socket.socket, pushed: Callable[[Connection, list[bytes]], None]
    ) -> None:
        self._sock = own(sock)
        self.descriptor: int = sock.fileno()  # to wait for several
        self._reader = reader()
        self._slice = 0.0
        self._poll: Poller | None = None
        self.pushed: Callable[[Connection, list[bytes]], None] = pushed
        self.sound: bool = True  # False after a failure: nothing new may be asked on it
        self.fresh: bool = True  # it was opened for what is asked now
        self.trips: RoundTrips = RoundTrips()  # of its address, once it is in a pool
        self.owed: int = 0  # answers that were not read yet
        self.channel: bytes = b""  # the channel it listens to
        # Another program's, until its waiter leaves, each with the command that subscribed.
        self.topics: dict[bytes, bytes] = {}
        self.asked_at: float = 0.0  # when it was last used
        self.undoing: bool = False  # a clean-up owns it now
        self.pinged_at: float = 0.0  # when it was asked whether it is alive, until it answers
        self.waiter: Any = None  # the waiter that uses it
        self.mastered: bool = True  # a master answered this client there
        # In a Cluster:
        self.node: Any = None  # where it leads
        self.channels: dict[int, bytes] = {}  # the channels it listens to, by slot
        self.name: bytes = b""  # with which they begin

    def command(self, args: Sequence[bytes | int], until: float) -> Reply:
        """Run a plain command and return its reply."""
        return self.run(pack(args), until, now())

    async def ask(self, args: Sequence[bytes | int], until: float) -> Reply:
        """Run a plain command, for a flow of both faces."""
        return self.command(args, until)

    def run(self, request: bytes, until: float, at: float) -> Reply:
        """Run a packed script call, or a command; see ``Wire.call`` for how it ends.

        It sends and receives in one frame: nearly always the answer is there in this moment. Any
        exception but a ServerError, even a signal handler's, leaves the connection unsound. ``at``
        is what the clock said just before.
        """
        try:
            self.asked_at = at
            self.owed = 1  # as a sound connection owed none
            try:
                self._sock.sendall(request)
            except OSError as error:
                raise self._broken(error) from error
            if self._slice == SETTLE_SECONDS:
                try:  # noqa: SIM105 - ``suppress`` would cost as much as the rest
                    self._reader.feed(self._sock.recv(RECV_BYTES))
                except OSError:  # nothing yet; or it is lost, which ``answer`` finds, too
                    pass
            reply = self._reader.gets()
            if type(reply) in ANSWERS:
                self.owed = 0
                if self.trips.watched:
                    self.trips.saw(now() - at)
                return reply
            reply = self._late(reply, until, at)
        except ConnectionError as error:
            raise self._foreign(error) from error
        except BaseException:
            self.sound = False
            raise
        if type(reply) is not ReplyError:
            return reply
        if unknown_script(reply) and b"EVALSHA" in request[:24]:
            return self.run(with_source(request), until, now())
        raise refusal(self.error_of(reply), mastered=self.mastered)

    def error_of(self, reply: ReplyError) -> ServerError:
        """Return the error for a refusal; nothing more is asked of a replica."""
        error = server_error(reply)
        if error.code in DEMOTED:
            self.sound = False
            worked.clear()  # another address of the name may lead to the master
        return error

    def send(self, packed: bytes, requests: int = 1) -> None:
        """Send a request, or several; NoReply when the connection is gone."""
        self.owed += requests
        try:
            self._sock.sendall(packed)
        except OSError as error:
            raise self._broken(error) from error

    def answer(self, until: float, *, confirms: tuple[bytes, bytes] | None = None) -> Reply:
        """Read the next answer, which may be a ReplyError; an exception leaves it unsound.

        SUBSCRIBE is answered by a push: the one that ``confirms`` begins is taken for the answer.
        """
        return self._awaited(INCOMPLETE, until, confirms=confirms)

    def _late(self, reply: Any, until: float, at: float) -> Reply:
        """Return an answer that was not there at once, or a refusal; note how long it took."""
        if not self.fresh:
            until = min(until, at + self.trips.silence)
        reply = self._awaited(reply, until)
        took = now() - at
        if took > NOTED_SECONDS or self.trips.watched:
            self.trips.saw(took)
        return reply

    def _awaited(
        self, reply: Any, until: float, *, confirms: tuple[bytes, bytes] | None = None
    ) -> Reply:
        """Return the next answer; ``reply`` is what was read so far: nothing, or a push."""
        try:
            while True:
                if type(reply) is Push:
                    if confirms and (*reply[:2],) == confirms:
                        break
                    self.pushed(self, reply)
                elif reply is not INCOMPLETE:
                    break
                reply = self._next(until)
        except BaseException:
            self.sound = False
            raise
        self.owed -= 1
        return reply

    def prompt(self) -> Reply:
        """Return the answer that comes within a moment, or INCOMPLETE; ends like ``answer``."""
        if self._slice != SETTLE_SECONDS:
            return INCOMPLETE
        try:
            data = self._sock.recv(RECV_BYTES)
        except OSError as error:
            if isinstance(error, (BlockingIOError, TimeoutError)):
                return INCOMPLETE
            raise self._broken(error) from error
        if not data:  # ``answer`` finds the end, too
            return INCOMPLETE
        self._reader.feed(data)
        try:
            while type(reply := self._reader.gets()) is Push:
                self.pushed(self, reply)
        except ConnectionError as error:
            raise self._foreign(error) from error
        if reply is not INCOMPLETE:
            self.owed -= 1
        return reply

    def arrived(self, until: float) -> Reply:
        """Return the answer on a connection where something came; ends like ``answer``.

        Nearly always that is the whole answer.
        """
        reply = self.prompt()
        return self.answer(until) if reply is INCOMPLETE else reply

    def listen(self, until: float) -> bool:
        """Read one push; False when none came by ``until``. Only while no answer is owed."""
        try:
            reply = self._next(until, broken=False)
        except BaseException:
            self.sound = False
            raise
        if reply is INCOMPLETE:
            return False
        self._unasked(reply)
        return True

    def settle(self) -> bool:
        """Take all that came while the connection was idle; False when it was closed meanwhile."""
        try:
            self._drain()
            while self.sound and self._comes(0):
                self.listen(now() + SETTLE_SECONDS)
                self._drain()
        except NoReply:
            return False
        return self.sound

    def _drain(self) -> None:
        """Hand out what was read already: one packet may bring several pushes."""
        while self.sound and (message := self._parsed()) is not INCOMPLETE:
            self._unasked(message)

    def _unasked(self, message: Any) -> None:
        """Hand out a push; an answer that no request waits for ends the connection."""
        if type(message) is Push:
            self.pushed(self, message)
        elif self.pinged_at:
            self.pinged_at = 0.0
        else:
            self.sound = False

    def ping(self, at: float) -> None:
        """Ask whether the server is still there; ``listen`` takes the answer, also a refusal."""
        self.send(PING, 0)
        self.pinged_at = at

    def readable(self, wake: int, seconds: float) -> bool:
        """Wait until a push may be there or ``wake`` (a file descriptor) is written to.

        Pushes that came with the last answer are handed out first: no poll would notice them.
        """
        self._drain()
        poll = poller()
        poll.register(self._sock, POLLIN)
        poll.register(wake, POLLIN)
        return any(fd != wake for fd, _ in poll.poll(max(0.0, seconds) * 1000))

    def subscribe(self, channel: bytes, until: float, word: bytes = b"SUBSCRIBE") -> None:
        """Listen to a channel; ServerDenied when the user may not, NoReply when no answer came."""
        if not self.fresh:
            until = min(until, now() + self.trips.silence)
        try:
            self.send(pack((word, channel)))
            reply = self.answer(until, confirms=(word.lower(), channel))
        except BaseException:
            self.sound = False
            raise
        if type(reply) is ReplyError:
            raise refusal(self.error_of(reply), mastered=self.mastered)
        self.channel = channel

    def tune(self, topic: bytes, until: float, word: bytes = b"SUBSCRIBE") -> None:
        """Listen to another program's channel, too, until ``untune``; ends like ``subscribe``."""
        own, self.topics[topic] = self.channel, word
        self.subscribe(topic, until, word)
        self.channel = own

    def untune(self, until: float) -> None:
        """Leave such channels; a connection that cannot is of no further use."""
        own = self.channel
        while self.topics and self.sound and not self.owed:
            topic, word = self.topics.popitem()
            try:
                self.subscribe(topic, until, word.replace(b"SUB", b"UNSUB"))
            except (NoReply, ServerError):
                self.sound = False
        self.channel = own

    def interrupt(self) -> None:
        """Make the thread that reads find the connection closed; may be called by any thread."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket; the connection is unsound from here on.

        Unsent data of an abandoned request is dropped, so that it does not arrive later. If an undo
        follows it, both must arrive.
        """
        self.sound = False
        if self.owed and not self.undoing and mark[0]:  # in a copy, the socket is the parent's, too
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        close(self._sock)

    def __del__(self) -> None:
        """Close a connection that a failure left behind."""
        if getattr(self, "undoing", None) is not None:
            self.close()
        elif (sock := getattr(self, "_sock", None)) is not None:  # an interrupt while it was made
            sock.close()

    def _next(self, until: float, *, broken: bool = True) -> Any:
        """Return the next message; at ``until`` raise NoReply, or return INCOMPLETE."""
        while True:
            message = self._parsed()
            if message is not INCOMPLETE:
                return message
            left = until - now()
            if left <= 0:
                return self._overdue(broken=broken)
            data = self._receive(min(left, REST_SECONDS))
            if data == b"":
                self.close()
                raise NoReply("the server closed the connection", sent=True)
            if data is not None:
                self._reader.feed(data)

    def _parsed(self) -> Any:
        """Return the next message of what was read, or INCOMPLETE."""
        try:
            return self._reader.gets()
        except ConnectionError as error:
            raise self._foreign(error) from error

    def _foreign(self, error: ConnectionError) -> NoReply:
        """Close the connection; return the error for bytes that are no answer of a server."""
        self.close()
        return NoReply(f"no Redis or Valkey server: {error}", sent=True)

    def _overdue(self, *, broken: bool) -> Any:
        """Return what came all the same: a process that was frozen finds its answer there."""
        data = self._receive(SETTLE_SECONDS)
        if data:
            self._reader.feed(data)
            message = self._parsed()
            if message is not INCOMPLETE:
                return message
        if broken:
            raise NoReply("no answer in time", sent=True, undo_connection=self)
        return INCOMPLETE

    def _comes(self, seconds: float) -> bool:
        """Return True if something came; wait for it, in spite of signals, for so long."""
        poll = self._poll
        if poll is None:
            poll = self._poll = poller()
            poll.register(self._sock, POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _receive(self, seconds: float) -> bytes | None:
        """Return what came, b"" at the end, None when nothing came in time."""
        if type(self._sock).__module__ != "socket":  # TLS, gevent: they have timeouts of their own
            if seconds != self._slice:
                self._slice = seconds
                self._sock.settimeout(seconds)
            return self._take()
        if self._slice != SETTLE_SECONDS:
            if not _KERNEL_TIMEOUTS:
                return self._take() if self._comes(seconds) else None
            self._slice = SETTLE_SECONDS
            moment = struct.pack("ll", 0, int(SETTLE_SECONDS * 1e6))
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, moment)
        data = self._take()
        if data is None and seconds > SETTLE_SECONDS and self._comes(seconds):
            data = self._take()
        return data

    def _take(self) -> bytes | None:
        """Receive once; see ``_receive``."""
        try:
            return self._sock.recv(RECV_BYTES)
        except (BlockingIOError, TimeoutError):
            return None
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> NoReply:
        """Close the connection; return the error for a socket that failed."""
        self.close()
        return NoReply(f"connection lost: {error}", sent=True)


Pushed = Callable[[Connection, list[bytes]], None]
Make = Callable[[Any, Pushed], Connection]


class BlockingSockets:
    """Implements ``connect.Sockets`` for threads."""

    async def look_up(
        self, until: float, key: Hashable, function: Callable[[], list[Found]]
    ) -> list[Found]:
        """Wait for a thread that resolves the name."""
        from fencelock._io.bounded_call import within  # noqa: PLC0415 - for names only

        return within(until, key, function, name=RESOLVER)

    def begin(self, sock: socket.socket, where: Any) -> OSError | None:
        """Begin to connect a socket; return the error if it ends at once."""
        sock.settimeout(0)
        try:
            sock.connect(where)
        except BlockingIOError as error:
            return error if sock.family == getattr(socket, "AF_UNIX", None) else None
        except OSError as error:
            return error
        return None

    async def ended(
        self, dials: Mapping[socket.socket, OSError | None], seconds: float
    ) -> Sequence[tuple[socket.socket, OSError | None]]:
        """Wait until one has ended; one that is connected has no timeout then, but to send."""
        if over := [(sock, error) for sock, error in dials.items() if error is not None]:
            return over
        poll, socks = poller(), {sock.fileno(): sock for sock in dials}
        for sock in dials:
            poll.register(sock, POLLOUT)
        ready = [socks[number] for number, _ in poll.poll(seconds * 1000)]
        return [(sock, _connected(sock)) for sock in ready]

    def stop(self, sock: socket.socket, _dial: object) -> None:
        """Close it."""
        sock.close()


def _connected(sock: socket.socket) -> OSError | None:
    """Give a connected socket its timeouts; return the error of one that is not."""
    number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if number:
        return OSError(number, os.strerror(number))
    sock.settimeout(None if _KERNEL_TIMEOUTS else SEND_SECONDS)
    if _KERNEL_TIMEOUTS:
        moment = struct.pack("ll", int(SEND_SECONDS), 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, moment)
    return None


def dial(source: One, until: float, pushed: Pushed, make: Make = Connection) -> Connection:
    """Return a greeted connection; raises NoReply or a ServerError when there is none."""
    patched()
    source = instead_of(source, asynchronous=False)
    where = source.label
    handshake: Sequence[tuple[bytes, ...]] = [GREETING]
    with connecting(where):
        if isinstance(source, Direct):
            address = source.locate(until)
            where, handshake = str(address), address.handshake()
            opening = open_socket(BlockingSockets(), address, until, answered=source.answered)
            sock = run_inline(opening)
        elif isinstance(source, Bridged):
            from fencelock._io.sources import bridge  # noqa: PLC0415 - seldom needed

            sock = bridge.connect(source)
        else:
            from fencelock._io.sources import client  # noqa: PLC0415 - needs redis-py's exceptions

            sock = client.connect(source, until)
    connection = make(sock, pushed)
    try:
        connection.mastered = run_inline(greet(connection.ask, handshake, where, until))
    except BaseException:
        connection.close()
        raise
    if isinstance(source, Cloned):
        source.spoken.add(where)
    return connection
