"""Make this process look like one of Windows or macOS: ``windows()`` or ``macos()``, then import.

What the system lacks is taken away: modules cannot be imported, functions and constants are gone,
and what is left refuses what it refuses there. So it shows what breaks because something is
missing. It cannot show what is there and behaves otherwise: that needs the system itself.
"""

from __future__ import annotations

import asyncio
import errno
import multiprocessing  # noqa: F401  # it looks for what is taken away, as those below
import os
import platform  # noqa: F401  # as above
import select
import selectors
import signal
import socket
import ssl  # noqa: F401  # as above
import stat
import subprocess  # noqa: F401  # as above
import sys
import tempfile  # noqa: F401  # as above
import time
from importlib.abc import MetaPathFinder

WINDOWS_LACKS = {
    os: """
        chown confstr ctermid eventfd fchmod fchown fork forkpty getegid geteuid getgid getgroups
        getloadavg getpgid getpgrp getpriority getsid getuid initgroups killpg lchown memfd_create
        mkfifo mknod nice openpty pidfd_open pipe2 posix_spawn posix_spawnp pread pwrite readv
        register_at_fork sched_getaffinity sched_yield sendfile setgid setpgid setsid setuid statvfs
        sysconf tcgetpgrp tcsetpgrp ttyname uname wait wait3 wait4 waitid writev
        EX_CONFIG EX_IOERR EX_OK EX_TEMPFAIL EX_UNAVAILABLE EX_USAGE O_CLOEXEC O_DIRECTORY O_DSYNC
        O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC P_ALL P_PID WEXITSTATUS WIFEXITED WIFSIGNALED WNOHANG
        WTERMSIG WUNTRACED
    """,
    select: "devpoll epoll kqueue poll POLLERR POLLHUP POLLIN POLLNVAL POLLOUT POLLPRI",
    selectors: "EpollSelector PollSelector",
    # The last two are there, but a timeout has another form, and one that passed may lose data.
    socket: """
        AF_NETLINK AF_PACKET AF_UNIX AF_VSOCK CMSG_LEN CMSG_SPACE MSG_DONTWAIT MSG_NOSIGNAL
        SCM_RIGHTS SOCK_CLOEXEC SOCK_NONBLOCK SO_PEERCRED SO_REUSEPORT TCP_INFO TCP_QUICKACK
        TCP_USER_TIMEOUT recv_fds send_fds SO_RCVTIMEO SO_SNDTIMEO
    """,
    time: """
        CLOCK_BOOTTIME CLOCK_MONOTONIC CLOCK_MONOTONIC_RAW CLOCK_PROCESS_CPUTIME_ID CLOCK_REALTIME
        CLOCK_THREAD_CPUTIME_ID clock_gettime clock_gettime_ns pthread_getcpuclockid tzset
    """,
    signal: """
        ITIMER_PROF ITIMER_REAL ITIMER_VIRTUAL SIG_BLOCK SIG_SETMASK SIG_UNBLOCK alarm getitimer
        pause pidfd_send_signal pthread_kill pthread_sigmask setitimer siginterrupt sigpending
        sigtimedwait sigwait sigwaitinfo
    """,
}
WINDOWS_SIGNALS = frozenset({"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"})
WINDOWS_MODULES = (
    *("curses", "fcntl", "grp", "pty", "pwd", "readline"),
    *("resource", "syslog", "termios", "tty", "uvloop"),
)
MACOS_LACKS = {
    os: """
        eventfd memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate sched_getaffinity
        sched_setaffinity setns splice unshare O_DIRECT O_PATH O_TMPFILE
    """,
    select: "epoll",
    selectors: "EpollSelector",
    socket: """
        AF_NETLINK AF_PACKET AF_VSOCK MSG_CMSG_CLOEXEC MSG_NOSIGNAL SOCK_CLOEXEC SOCK_NONBLOCK
        SO_DOMAIN SO_PEERCRED SO_PROTOCOL TCP_INFO TCP_KEEPIDLE TCP_LINGER2 TCP_QUICKACK TCP_SYNCNT
        TCP_USER_TIMEOUT
    """,
    time: "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
    signal: """
        SIGCLD SIGPOLL SIGPWR SIGRTMAX SIGRTMIN SIGSTKFLT pidfd_send_signal sigtimedwait sigwaitinfo
    """,
}


class _Missing(MetaPathFinder):
    """Finds what there is not."""

    def __init__(self, names):
        self._names = set(names)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _take_away(lacks, modules=()):
    for name in modules:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Missing(modules))
    for module, names in lacks.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)


def windows():
    """Make this a process of Windows, for all that is imported from here on."""
    descriptors_are_sockets(select.select)
    real = frozenset(signal.Signals)
    signal.valid_signals = lambda: {each for each in real if each.name in WINDOWS_SIGNALS}
    socket.socketpair = _pair
    lacks = dict(WINDOWS_LACKS)
    lacks[signal] += " ".join(each.name for each in real if each.name not in WINDOWS_SIGNALS)
    _take_away(lacks, WINDOWS_MODULES)
    selectors.DefaultSelector = selectors.SelectSelector
    sys.platform, os.name = "win32", "nt"
    for name in ("LOGNAME", "USER", "SUDO_USER"):
        os.environ.pop(name, None)


def macos():
    """Make this a process of macOS, for all that is imported from here on."""
    _take_away(MACOS_LACKS)
    selectors.DefaultSelector = selectors.PollSelector
    sys.platform = "darwin"
    listdir = os.listdir

    def listed(path="."):
        if str(path).startswith("/proc"):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return listdir(path)

    os.listdir = listed


def descriptors_are_sockets(select_really):
    """Have ``select`` refuse what is no socket, and nothing at all."""

    def select_sockets(readers, writers, others, seconds=None):
        numbers = [each if isinstance(each, int) else each.fileno() for each in readers]
        if not (numbers or writers or others):
            raise OSError(errno.EINVAL, "an invalid argument was supplied")
        if not all(stat.S_ISSOCK(os.fstat(number).st_mode) for number in numbers):
            raise OSError(errno.ENOTSOCK, "an operation was attempted on what is not a socket")
        return select_really(readers, writers, others, seconds)

    select.select = select_sockets


def _pair(family=socket.AF_INET, type=socket.SOCK_STREAM, proto=0):  # noqa: A002  # as Python's
    """Return two connected sockets, as Python does where there are no Unix sockets."""
    if family != socket.AF_INET:
        raise ValueError("Only AF_INET and AF_INET6 socket address families are supported")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    return ours, theirs


class WindowsLoop(asyncio.SelectorEventLoop):
    """A loop with what Windows' ``ProactorEventLoop`` can do."""

    def __init__(self):
        super().__init__(selectors.SelectSelector())

    def _refuse(self, *_args, **_options):
        raise NotImplementedError

    add_reader = add_writer = _refuse
    add_signal_handler = remove_signal_handler = _refuse
    create_unix_connection = create_unix_server = _refuse
