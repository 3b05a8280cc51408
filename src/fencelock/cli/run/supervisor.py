"""The supervisor of ``fencelock run``: a process of its own, and the command's parent.

It knows nothing of locks. The holder, the process that holds the lease, sends it two instants: when
to ask the command to stop (TERM) and when to kill it. Each renewal of the lease moves both. So the
command is stopped before the lease can end, whatever happens to the holder:

- the server is silent: the instants do not move, and they come;
- the holder is stopped (SIGSTOP, Ctrl-Z, a debugger): the same;
- the holder is killed: its end of the socket closes, and the command is killed at once.

When the supervisor is killed, the kernel kills the command (Linux: PR_SET_PDEATHSIG). The holder
sees the socket close and kills the processes that the command left. When the supervisor is stopped,
the holder kills the command in its place. Only while both are stopped, and the command is not, can
the command run on alongside the next holder of the lock: their fences tell them apart.

People see it as ``fencelock-guard`` in the list of processes, and as the guard in messages.

Rules of this file:

- It is forked before any thread exists, and stays without threads.
- It ignores every signal that can be ignored, and has a process group of its own: signals that a
  terminal sends do not reach it.
- Instants are those of ``fencelock._runtime.clock``. A sleep lasts at most a second: the kernel's
  timers stop while the machine is suspended, and that clock does not.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable

from fencelock._runtime.clock import REST_SECONDS, now
from fencelock._runtime.records import NamedTuple
from fencelock._runtime.typed import NoReturn
from fencelock.cli import collect_garbage
from fencelock.cli.exits import NOT_EXECUTABLE, NOT_FOUND, SIGNALLED
from fencelock.cli.run.process_tree import SUPERVISOR_NAME, ProcessTree

# After TERM the command has ended, but other processes of its tree live: how often to check.
_POLL_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1
_IGNORED = "INT TERM HUP QUIT USR1 USR2 TSTP TTIN TTOU PIPE"
_SIGNALS = tuple(getattr(signal, f"SIG{name}") for name in _IGNORED.split())


class CommandSpec(NamedTuple):
    """The command and how it is stopped; ``ignored`` are the signals that we were started with."""

    command: list[str]
    terminal: bool
    gentle: bool  # a lost lease means TERM first, then KILL
    grace: float
    ignored: frozenset[int]


class Supervisor:
    """The supervisor's state and its loop."""

    def __init__(self, line: socket.socket, spec: CommandSpec) -> None:
        self._line = line
        self._spec = spec
        self._holders_group = os.getpgrp()
        self._session = os.getsid(0)
        self._unread = b""
        self._tree: ProcessTree | None = None
        self._status: int | None = None
        self._failure = (-1, -1)  # a pipe; the child writes to it when it cannot become the command
        self._term_at = self._kill_at = float("inf")
        self._stopping = self._killed = self._dismissed = False
        self._wake = os.pipe()
        self._die_with_parent = _death_signal()

    def run(self) -> None:
        """Serve until the command has ended or the holder is gone."""
        os.set_blocking(self._wake[1], False)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        poll.register(self._wake[0], select.POLLIN)
        while not self._over():
            left = max(0.0, min(REST_SECONDS, min(self._term_at, self._kill_at) - now()))
            if self._status is not None:
                left = _POLL_SECONDS
            for fd, _ in poll.poll(1000 * left):
                if fd == self._wake[0]:
                    os.read(fd, 4096)
                elif not self._heard():
                    return self._abandoned()
            self._reap()
            self._keep_time()
        ran = not os.read(self._failure[0], 1)
        self._send(f"ended {self._status} {int(self._stopping)} {int(ran)}")
        # What killed the holder may have ended the command: then the rest of its tree must end too.
        while not self._dismissed:
            if not self._heard():
                return self._abandoned()
        return None

    # -- orders ---------------------------------------------------------------------------------

    def _heard(self) -> bool:
        """Obey the orders that arrived; return False when the holder is gone."""
        try:
            data = self._line.recv(65536)
        except OSError:
            data = b""
        *orders, self._unread = (self._unread + data).split(b"\n")
        for order in orders:
            verb, _, rest = order.partition(b" ")
            if verb == b"start":
                pairs = (bytes.fromhex(word.decode()) for word in rest.split())
                text = (pair.decode(errors="surrogateescape") for pair in pairs)
                self._start(dict(pair.split("=", 1) for pair in text))
            elif verb == b"until" and not self._stopping:
                self._term_at, self._kill_at = map(float, rest.split())
            elif verb == b"lost" and not self._stopping:
                self._term_at = 0.0
                if not self._spec.gentle:
                    self._kill_at = 0.0
            elif verb == b"done":
                self._dismissed = True
            elif verb == b"signal" and self._tree is not None and self._status is None:
                self._tree.signal(int(rest))
        return bool(data)

    def _abandoned(self) -> None:
        if self._tree is not None:
            self._tree.kill()

    # -- the command ----------------------------------------------------------------------------

    def _start(self, added: dict[str, str]) -> None:
        environment = os.environ | added
        self._failure = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(environment, supervisor)
        os.close(self._failure[1])
        os.set_blocking(self._failure[0], False)
        mark = f"FENCELOCK_HOLDER={added['FENCELOCK_HOLDER']}".encode()
        terminal = self._spec.terminal
        self._tree = ProcessTree(pid, self._session if terminal else pid, mark if terminal else b"")
        detach_streams()
        self._send(f"started {pid}")

    def _become(self, environment: dict[str, str], supervisor: int) -> NoReturn:
        """In the child: become the command."""
        command = self._spec.command
        status = NOT_EXECUTABLE
        try:
            if self._spec.terminal:
                os.setpgid(0, self._holders_group)
            else:
                os.setsid()
            self._die_with_parent()
            if os.getppid() != supervisor:  # it was killed before it could matter to us
                os._exit(SIGNALLED + signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            for number in (*_SIGNALS, signal.SIGCHLD, signal.SIGXFSZ):  # as we were given them
                ignored = number in self._spec.ignored
                signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
            os.execvpe(command[0], command, environment)  # noqa: S606 - the user's own command
        except OSError as error:
            missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
            status = NOT_FOUND if missing else NOT_EXECUTABLE
            text = f"fencelock: cannot run {command[0]!r}: {error.strerror}\n"
            os.write(2, text.encode(errors="replace"))
        finally:
            os.write(self._failure[1], b"!")
            os._exit(status)

    def _reap(self) -> None:
        if self._tree is None or self._status is not None:
            return
        pid, status = os.waitpid(self._tree.leader, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            self._status = code if code >= 0 else SIGNALLED - code

    # -- time -----------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        if self._tree is None:
            return
        current = now()
        if current >= self._kill_at:
            self._begin_to_stop()
            self._tree.kill()
            self._killed = True
            self._kill_at = float("inf")
        elif current >= self._term_at:
            self._begin_to_stop()
            self._tree.signal_all(signal.SIGTERM)
            self._tree.signal_all(signal.SIGCONT)
            self._kill_at = min(self._kill_at, current + self._spec.grace)

    def _begin_to_stop(self) -> None:
        if not self._stopping and self._status is None:
            self._stopping = True
            self._send("stopping")
        self._term_at = float("inf")

    def _over(self) -> bool:
        """Return True if the command has ended, and when it was stopped, its family too."""
        if self._tree is None or self._status is None:
            return False
        # What cannot be killed (another user's) is not waited for.
        return self._killed or not self._stopping or not any(self._tree.members())

    def _send(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._line.sendall(text.encode() + b"\n")


def supervise(
    line: socket.socket, spec: CommandSpec, unblocked: set[signal.Signals | int]
) -> NoReturn:
    """Be the supervisor; called in a fresh child process, with all signals blocked."""
    status = 1
    try:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        collect_garbage()
        supervisor = Supervisor(line, spec)
        if spec.terminal:
            os.setpgid(0, 0)
        else:
            os.setsid()
        with contextlib.suppress(OSError), open("/proc/self/comm", "wb") as file:  # noqa: PTH123 - see processes
            file.write(SUPERVISOR_NAME)
        supervisor.run()
        status = 0
    except BaseException:  # noqa: BLE001 - no caller is left: print it and end
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def detach_streams() -> None:
    """Replace stdin and stdout by /dev/null: they are the command's from now on.

    A pipe that the command closes must look closed to the process at the other end.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def _death_signal() -> Callable[[], object]:
    """Return a function that makes a process die with its parent; elsewhere it does nothing."""
    if sys.platform != "linux":
        return lambda: None
    words = (_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    with contextlib.suppress(ImportError, OSError):  # names of other Pythons
        # ``ctypes`` itself loads for longer than the rest of the guard.
        from _ctypes import call_function, dlopen, dlsym

        address = dlsym(dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # as ``ctypes`` does
        return lambda: call_function(address, words)
    with contextlib.suppress(ImportError, OSError, AttributeError):  # a Python or C library without
        from ctypes import CDLL

        prctl = CDLL(None).prctl
        return lambda: prctl(*words)
    return lambda: None
