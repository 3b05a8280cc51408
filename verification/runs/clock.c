/* Loaded before a server's own library: its wall clock as a mapped page says. See shims.py. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* It stood at `shown` when the true clock stood at `real`, and goes `rate` times as fast since.
   While it is changed `turn` is odd. */
struct clock { volatile int64_t turn, real, shown; volatile double rate; };
static struct clock *told;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("RUNS_CLOCK");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof *told, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) told = page;
  close(file);
}

static int64_t shown(int64_t now) {
  int64_t turn, result;
  do {
    while ((turn = told->turn) & 1) {}
    __sync_synchronize();
    result = told->shown + (int64_t)((now - told->real) * told->rate);
    __sync_synchronize();
  } while (turn != told->turn);
  return result;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  int result = syscall(SYS_clock_gettime, clock, at);
  if (result || !told || clock != CLOCK_REALTIME) return result;
  int64_t now = shown(at->tv_sec * 1000000000LL + at->tv_nsec);
  at->tv_sec = now / 1000000000;
  at->tv_nsec = now % 1000000000;
  return 0;
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
