#include <stdio.h>

#include "cli/cli.h"

const char cli_version_help[] = "Usage: queue-sidecar version\n"
                                "\n"
                                "Prints the version; `queue-sidecar --version` does the same.\n";

int cli_version(int argc, char **argv) {
    int status = cli_parse(argc, argv, NULL, 0);
    if (status == CLI_OK) printf("queue-sidecar %s\n", QS_VERSION);
    return status;
}
