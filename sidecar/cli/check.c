#include <stdio.h>

#include "cli/cli.h"

const char cli_check_help[] =
    "Examples:\n"
    "  queue-sidecar check                           the config where `run` would look for it\n"
    "  queue-sidecar check -c queue-sidecar.cfg      another one\n"
    "  queue-sidecar check -c my.cfg --redis         also ask Redis whether all of it would work\n"
    "  queue-sidecar check -c my.cfg >effective.cfg  the output is itself a config\n"
    "\n"
    "Usage: queue-sidecar check [-c FILE] [--redis]\n"
    "\n"
    "  -c, --config FILE  the config; otherwise QUEUE_SIDECAR_CONFIG, otherwise /etc/queue-sidecar/queue-sidecar.cfg\n"
    "      --redis        connect and run the preflight: version, settings, key types, rights, who leads; and look at "
    "audit.path:\n"
    "                     rights, room on the disk, who writes it\n"
    "\n"
    "Prints every effective value and where it came from (secrets redacted). Warnings and faults, each with file and line, go\n"
    "to standard error. Exit codes: 0 good, 78 bad config; with --redis also 1 refused by Redis and 69 unreachable.\n";

int cli_check(int argc, char **argv) {
    const char *path = NULL;
    bool redis = false;
    const cli_option_t options[] = {
        {.letter = 'c', .name = "config", .value = &path},
        {.name = "redis", .flag = &redis},
    };
    int status = cli_parse(argc, argv, options, sizeof options / sizeof *options);
    if (status != CLI_OK) return status;
    config_t *config = cli_load_config(cli_config_path(path));
    if (!config) return CLI_BAD_CONFIG;
    buffer_t dump = {0};
    config_dump(config, &dump);
    fwrite(dump.data, 1, dump.len, stdout);
    buffer_free(&dump);
    if (redis) status = check_redis(config);
    config_free(config);
    return status;
}
