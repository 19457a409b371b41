// queue-sidecar healthcheck: asks a running sidecar on this machine whether it is well, for those who have no curl in the
// container.
#include <stdio.h>

#include "cli/cli.h"
#include "cli/probe.h"

enum { PATIENCE_S = 5 };

static int check(const config_t *config, bool ready) {
    const char *why;
    buffer_t body = {0};
    if (config->http.port == 0) {
        fputs("queue-sidecar healthcheck: http.port is 0, so health is not served: give it a port\n", stderr);
        return CLI_FAILED;
    }
    int code = probe(config, ready ? "/readyz" : "/healthz", PATIENCE_S, &body, &why);
    fputs(buffer_text(&body), stdout);
    buffer_free(&body);
    if (code < 0)
        fprintf(stderr, "queue-sidecar healthcheck: %s port %lld: %s\n", config->http.listen, (long long)config->http.port, why);
    return code == 200 ? CLI_OK : CLI_FAILED;
}

typedef struct given {
    const char *config;
    bool ready;
} given_t;

static int healthcheck(int argc, char **argv) {
    given_t given = {0};
    int status = cli_parse(argc, argv, &cli_healthcheck_command, &given);
    if (status != CLI_OK) return status;
    config_t *config = cli_load_config(cli_config_path(given.config));
    if (!config) return CLI_BAD_CONFIG;
    status = check(config, given.ready);
    config_free(config);
    return status;
}

static const cli_option_t options[] = {
    CLI_OPTION_CONFIG(given_t),
    {.name = "ready",
     .at = offsetof(given_t, ready),
     .help = "whether it does its part (it has Redis, and leads or stands by), not only whether it turns"},
};

const cli_command_t cli_healthcheck_command = {
    .name = "healthcheck",
    .summary = "Ask a running sidecar whether it is well",
    .examples = "queue-sidecar healthcheck\tasks /healthz where the config says that it is served\n"
                "queue-sidecar healthcheck --ready\tasks /readyz, and prints what it says\n",
    .usage = "healthcheck [-c FILE] [--ready]",
    CLI_OPTIONS(options),
    .text = "For HEALTHCHECK of docker and podman, and for exec probes.",
    .exits = "0 well\n1 not, or nobody answers\n2 wrong usage\n78 bad config\n",
    .run = healthcheck,
};
