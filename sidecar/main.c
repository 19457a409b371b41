#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"

// Whoever starts us may have closed 0, 1 or 2. A socket must not get such a number, or what is printed would go to Redis.
static void fill_standard_files(void) {
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO) close(fd);
}

enum { LARGE = 256 * 1024 };

// Large blocks are mapped each by itself, and given back as soon as they are freed. By itself malloc would raise that limit to
// the largest block that was freed, up to 32 MiB, and keep such blocks (mallopt(3), M_MMAP_THRESHOLD).
static void give_back_large_blocks(void) { mallopt(M_MMAP_THRESHOLD, LARGE); }

int main(int argc, char **argv) {
    fill_standard_files();
    give_back_large_blocks();
    signal(SIGPIPE, SIG_IGN); // a closed socket or pipe is an error like any other
    return cli_main(argc, argv);
}
