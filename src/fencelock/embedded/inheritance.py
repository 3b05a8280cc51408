"""What a server would keep for ever of the process that happened to start it, and how it is freed.

A batch job with a low priority and tight limits may be the first that needs the server. Rules:

- A signal's mask, limits and niceness can only be changed by the process that has them, before it
  becomes the server. Nothing is changed in the starter, where other threads run.
- So, where there is something to shed, the server's program is run by a small program in Python. It
  needs nothing but the standard library, and becomes the server.
- What only root may lift (a hard limit, niceness) is tried, and printed if it stays.
- Out of reach: the control group, ``oom_score_adj`` and the priority of input and output.
"""

from __future__ import annotations

import os
import resource
import signal
import sys

KEEPS = "fencelock: the server keeps of the process that started it: "

# The server's own handlers take the place of these, or ``subprocess`` does.
_HANDLED = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ}

# As many open files as ten thousand clients need.
_FILES = 10_032

# Of CPU time in seconds, and of files, addresses and data in bytes.
_UNLIMITED = ("CPU", "FSIZE", "AS", "DATA")

_SHED = f"""
import os, resource, signal, sys
none, keeps = resource.RLIM_INFINITY, []
signal.pthread_sigmask(signal.SIG_SETMASK, ())
for number in signal.valid_signals() - {{signal.SIGKILL, signal.SIGSTOP}}:
    try: signal.signal(number, signal.SIG_DFL)
    except (OSError, ValueError): pass
def lift(which, wanted, text):
    hard = resource.getrlimit(which)[1]
    if hard == none or (wanted != none and hard >= wanted): wanted = hard
    try: resource.setrlimit(which, (wanted, wanted))
    except (OSError, ValueError):
        resource.setrlimit(which, (hard, hard))
        keeps.append(text % hard)
for name in {_UNLIMITED!r}:
    lift(getattr(resource, "RLIMIT_" + name), none, "RLIMIT_" + name + " %d")
lift(resource.RLIMIT_NOFILE, {_FILES}, "at most %d open files")
try:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.sched_setaffinity(0, range(os.cpu_count()))
except AttributeError: pass
except OSError as error: keeps.append("how it is scheduled: %s" % error.strerror)
try: os.setpriority(os.PRIO_PROCESS, 0, 0)
except OSError: keeps.append("niceness %d" % os.getpriority(os.PRIO_PROCESS, 0))
if keeps: print({KEEPS!r} + "; ".join(keeps), flush=True)
os.execv(sys.argv[1], sys.argv[1:])
"""

# The first words of a command that is freed of what it inherits.
SHEDDING = (sys.executable, "-I", "-S", "-c", _SHED)


def can_shed() -> bool:
    """Return True if there is an interpreter to run ``SHEDDING``, and something to shed."""
    program = sys.executable or ""
    name = os.path.basename(os.path.realpath(program))
    usable = name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
    return usable and os.access(program, os.X_OK) and (bool(burdens()) or _is_pinned())


def burdens() -> list[str]:
    """Return in words what a process would inherit of this thread that a server should not have."""
    found = []
    if blocked := signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        found.append(f"blocked signals {sorted(map(int, blocked))}")
    ignored = (each for each in signal.valid_signals() if signal.getsignal(each) == signal.SIG_IGN)
    if unhandled := sorted(map(int, set(ignored) - _HANDLED)):
        found.append(f"ignored signals {unhandled}")
    if niceness := os.getpriority(os.PRIO_PROCESS, 0):
        found.append(f"niceness {niceness}")
    if hasattr(os, "sched_getscheduler") and (policy := os.sched_getscheduler(0)):
        found.append(f"scheduling policy {policy}")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= files < _FILES:
        found.append(f"at most {files} open files")
    for name in _UNLIMITED:
        limit = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0]
        if limit != resource.RLIM_INFINITY:
            found.append(f"RLIMIT_{name} {limit}")
    return found


def _is_pinned() -> bool:
    """Return True if this process may not use all processors; in a container none may."""
    ask = getattr(os, "sched_getaffinity", None)  # not on macOS
    return ask is not None and len(ask(0)) < (os.cpu_count() or 1)
