#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"

// Whoever starts us may have closed 0, 1 or 2. A socket must not get such a number, or what is printed would go to Redis.
static void fill_standard_files(void) {
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO) close(fd);
}

int main(int argc, char **argv) {
    fill_standard_files();
    signal(SIGPIPE, SIG_IGN); // hiredis writes without MSG_NOSIGNAL; a closed socket or pipe is an error like any other
    return cli_main(argc, argv);
}
