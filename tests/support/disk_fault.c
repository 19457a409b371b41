#include "disk_fault.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic(const char *) part; /* NULL: off */
static atomic_int kinds, nth, times, error, seen, hits;

void disk_fault_on(const char *of, int which, int from, int count, int code) {
    part = NULL;
    kinds = which, nth = from, times = count, error = code, seen = 0, hits = 0;
    part = of;
}

void disk_fault_off(void) { part = NULL; }
int disk_fault_hits(void) { return hits; }

static bool fails(int fd, int kind) {
    char link[40], path[1024];
    const char *wanted = part;
    if (!wanted || !(kinds & kind)) return false;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof(path) - 1);
    path[len > 0 ? len : 0] = '\0';
    if (!strstr(path, wanted)) return false;
    int now = ++seen;
    if (now < nth || now >= nth + times) return false;
    hits++;
    while (error == 0 && part) usleep(1000);
    errno = error;
    return error != 0;
}

/* These replace libc's functions in this binary and in the libraries that it loads. */
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
    return fails(fd, DISK_WRITE) ? -1 : syscall(SYS_pwrite64, fd, bytes, count, offset);
}
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) { return pwrite64(fd, bytes, count, offset); }
int fsync(int fd) { return fails(fd, DISK_SYNC) ? -1 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return fails(fd, DISK_SYNC) ? -1 : (int)syscall(SYS_fdatasync, fd); }
int ftruncate64(int fd, off64_t size) { return fails(fd, DISK_CUT) ? -1 : (int)syscall(SYS_ftruncate, fd, size); }
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
