// queue-sidecar healthcheck: asks a running sidecar on this machine whether it is well, for those who have no curl in the
// container.
#include <stdio.h>

#include "cli/args.h"
#include "cli/load_config.h"
#include "cli/status/local_instance.h"

enum { TIMEOUT_S = 5 };

// Returns the exit code; `mute` where nobody answers.
static int healthcheck_ask(const config_t *config, bool ready, int unresponsive) {
    const char *why;
    buffer_t body = {0};
    if (config->http.port == 0) {
        fputs("queue-sidecar healthcheck: http.port is 0, so health is not served: give it a port\n", stderr);
        return unresponsive;
    }
    buffer_t other = {0};
    int code = local_instance_ask(config, ready ? "/readyz" : "/healthz", TIMEOUT_S, &body, &why);
    bool unrelated = code >= 0 && ready && local_instance_is_unrelated(config, (slice_t){buffer_text(&body), body.len}, &other);
    fputs(buffer_text(&body), stdout);
    if (code < 0 || unrelated)
        fprintf(stderr, "queue-sidecar healthcheck: %s port %lld: %s\n", config->http.listen, (long long)config->http.port,
                unrelated ? buffer_text(&other) : why);
    buffer_free(&body);
    buffer_free(&other);
    if (code < 0) return unresponsive;
    return code == 200 && !unrelated ? CLI_OK : CLI_FAILED;
}

typedef struct healthcheck_options {
    const char *config;
    bool ready;
} healthcheck_options_t;

static int healthcheck_run(int argc, char **argv) {
    healthcheck_options_t options = {0};
    int status = args_parse(argc, argv, &cli_healthcheck_command, &options);
    if (status != CLI_OK) return status;
    const char *path = cli_config_path(options.config);
    config_t *config = cli_load_config(path);
    int unresponsive = config ? CLI_FAILED : CLI_BAD_CONFIG;
    // A sidecar that goes on with an earlier one is well: to end it for that would end it for good.
    if (!config) config = config_load_refused(path);
    if (!config) return CLI_BAD_CONFIG;
    status = healthcheck_ask(config, options.ready, unresponsive);
    config_free(config);
    return status;
}

static const cli_option_t healthcheck_table[] = {
    CLI_OPTION_CONFIG(healthcheck_options_t),
    {.name = "ready",
     .at = offsetof(healthcheck_options_t, ready),
     .help = "whether it does its part (it has Redis, and leads or stands by), not only whether it turns"},
};

const cli_command_t cli_healthcheck_command = {
    .name = "healthcheck",
    .summary = "Ask a running sidecar whether it is well",
    .examples = "queue-sidecar healthcheck\tasks /healthz where the config says that it is served\n"
                "queue-sidecar healthcheck --ready\tasks /readyz, and prints what it says\n",
    .usage = "healthcheck [-c FILE] [--ready]",
    CLI_OPTIONS(healthcheck_table),
    .text =
        "For HEALTHCHECK of docker and podman, and for exec probes. A config that is refused is told, and the instance that goes "
        "on with an earlier one is asked all the same.",
    .exits = "0 well\n1 not, or nobody answers\n2 wrong usage\n78 bad config, and nobody answers\n",
    .run = healthcheck_run,
};
