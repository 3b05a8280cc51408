"""A server whose wall clock a test can set: a small library, loaded before the server's own.

Only that server sees it. Leases end by this clock; the server's timers and ours are monotonic.
"""

import contextlib
import mmap
import os
import shutil
import struct
import subprocess

from tests.faults.world import wait_until
from tests.servers import Server

SEEN_SECONDS = 30

SOURCE = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;  /* seconds */

__attribute__((constructor)) static void begin(void) {
  int file = open(getenv("TEST_CLOCK_OFFSET"), O_RDONLY);
  if (file < 0) return;
  void *page = mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) offset = page;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  int result = syscall(SYS_clock_gettime, clock, at);
  if (!result && offset && clock == CLOCK_REALTIME) at->tv_sec += *offset;
  return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  at->tv_sec = precise.tv_sec;
  at->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (at) *at = precise.tv_sec;
  return precise.tv_sec;
}
"""


def why_not():
    """Return why no such server can be had here, or an empty string."""
    return "" if shutil.which("gcc") else "no gcc to build the clock with"


@contextlib.contextmanager
def server_with_a_clock(folder):
    """Yield a server and the function that puts its wall clock so many seconds forward or back."""
    library, offset = folder / "clock.so", folder / "offset"
    (folder / "clock.c").write_text(SOURCE)
    build = ["gcc", "-shared", "-fPIC", "-O1", "-o", library, folder / "clock.c"]
    subprocess.run(build, check=True)
    offset.write_bytes(bytes(8))
    with offset.open("r+b") as file, mmap.mmap(file.fileno(), 8) as page:

        def jump(seconds):
            before = int(server.command("TIME")[0])
            page[:] = struct.pack("=q", struct.unpack("=q", page[:])[0] + seconds)
            # A server looks at its clock between commands: after this it has seen the jump.
            wait_until(
                lambda: abs(int(server.command("TIME")[0]) - before - seconds) < SEEN_SECONDS
            )

        with Server() as server:
            server.stop()
            with _set(LD_PRELOAD=str(library), TEST_CLOCK_OFFSET=str(offset)):
                server.start()
            yield server, jump


@contextlib.contextmanager
def _set(**variables):
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
