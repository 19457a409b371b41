#include <stdio.h>

#include "cli/cli.h"

int cli_version(int argc, char **argv) {
    int status = cli_parse(argc, argv, &cli_version_command, NULL);
    if (status == CLI_OK) printf("queue-sidecar %s\n", QS_VERSION);
    return status;
}

const cli_command_t cli_version_command = {
    .name = "version",
    .summary = "Print the version",
    .usage = "version",
    .text = "`queue-sidecar --version` does the same.",
    .exits = "0 ok\n2 wrong usage\n",
    .run = cli_version,
};
