/* Preloaded into redis-server: shifts its wall clock by the offset in the file that QS_CLOCK_FILE names (one int64 of
 * microseconds, mapped, so that it can change at any time). Monotonic and CPU clocks are left alone. The real time is taken by
 * system call: looking up the next definition by dlsym can allocate, and redis-server's allocator asks for the time while it
 * starts. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MICROS 1000000

static _Atomic int64_t *offset_us; /* NULL: no shift */

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("QS_CLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *page = mmap(NULL, sizeof(*offset_us), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) offset_us = page;
}

static int64_t shift(void) { return offset_us ? atomic_load_explicit(offset_us, memory_order_relaxed) : 0; }

static int shifted(clockid_t clock, struct timespec *out) {
    if (syscall(SYS_clock_gettime, clock, out) != 0) return -1;
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return 0;
    int64_t by = shift(); /* read once: the offset may change at any time */
    int64_t nanos = out->tv_nsec + by % MICROS * 1000;
    out->tv_sec += by / MICROS;
    if (nanos < 0) {
        nanos += 1000000000;
        out->tv_sec--;
    } else if (nanos >= 1000000000) {
        nanos -= 1000000000;
        out->tv_sec++;
    }
    out->tv_nsec = nanos;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *out) { return shifted(clock, out); }

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (shifted(CLOCK_REALTIME, &now) != 0) return -1;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    shifted(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
