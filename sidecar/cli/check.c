#include <stdio.h>

#include "cli/cli.h"

typedef struct given {
    const char *config;
    bool redis;
} given_t;

static int check(int argc, char **argv) {
    given_t given = {0};
    int status = cli_parse(argc, argv, &cli_check_command, &given);
    if (status != CLI_OK) return status;
    config_t *config = cli_load_config(cli_config_path(given.config));
    if (!config) return CLI_BAD_CONFIG;
    buffer_t dump = {0};
    config_dump(config, &dump);
    fwrite(dump.data, 1, dump.len, stdout);
    buffer_free(&dump);
    if (given.redis) status = check_redis(config);
    config_free(config);
    return status;
}

static const cli_option_t options[] = {
    CLI_OPTION_CONFIG(given_t),
    {.name = "redis",
     .at = offsetof(given_t, redis),
     .help =
         "connect and run the preflight: version, settings, key types, rights, who leads; and look at audit.path: rights, room "
         "on the disk, who writes it"},
};

const cli_command_t cli_check_command = {
    .name = "check",
    .summary = "Check a config and print every effective value",
    .examples = "queue-sidecar check\tthe config where `run` would look for it\n"
                "queue-sidecar check -c queue-sidecar.cfg\tanother one\n"
                "queue-sidecar check -c my.cfg --redis\talso ask Redis whether all of it would work\n"
                "queue-sidecar check -c my.cfg >effective.cfg\tthe output is itself a config\n",
    .usage = "check [-c FILE] [--redis]",
    CLI_OPTIONS(options),
    .text = "Prints every effective value and where it came from (secrets redacted). Warnings and faults, each with file and "
            "line, go "
            "to standard error.",
    .exits = "0 good\n1 with --redis: refused by Redis\n2 wrong usage\n69 with --redis: unreachable\n78 bad config\n",
    .run = check,
};
