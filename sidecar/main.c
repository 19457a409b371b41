#include <signal.h>

#include "cli/cli.h"

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); // hiredis writes without MSG_NOSIGNAL; a closed socket or pipe is an error like any other
    return cli_main(argc, argv);
}
