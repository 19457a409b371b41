#include "base/wakeup.h"
#include "base/std.h"

#include <sys/eventfd.h>

int wakeup_new(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }

void wakeup_raise(int fd) {
    uint64_t one = 1;
    if (fd >= 0 && write(fd, &one, sizeof one) < 0) return; // the counter is full, so the flag is raised
}

void wakeup_clear(int fd) {
    uint64_t count;
    if (read(fd, &count, sizeof count) < 0) return; // the flag was clear
}
