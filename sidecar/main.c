#include <fcntl.h>
#include <malloc.h>
#include <signal.h>

#include "cli/cli.h"

// Reserve fds 0-2, or a socket could become stderr and log lines would go to Redis.
static void main_reserve_standard_files(void) {
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO) close(fd);
}

enum { LARGE = 256 * 1024 }; // bytes

// Fix the threshold above which malloc maps a block by itself and returns it on free. By default malloc raises it up to 32 MiB
// and keeps such blocks (mallopt(3), M_MMAP_THRESHOLD).
static void main_return_large_blocks(void) { mallopt(M_MMAP_THRESHOLD, LARGE); }

int main(int argc, char **argv) {
    main_reserve_standard_files();
    main_return_large_blocks();
    signal(SIGPIPE, SIG_IGN); // a write to a closed socket or pipe then fails with EPIPE
    return cli_main(argc, argv);
}
