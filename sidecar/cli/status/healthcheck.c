// queue-sidecar healthcheck: asks the sidecar on this machine whether it is well. For containers without curl.

#include "cli/args.h"
#include "cli/terminal.h"
#include "dialects/registry.h"
#include "operate/status/local_instance.h"

enum { TIMEOUT_S = 5 };

// Returns an exit code: `no_answer` if the sidecar does not answer.
static int healthcheck_ask(const config_t *config, bool ready, int no_answer) {
    local_instance_t instance;
    buffer_t body = {0};
    local_instance_ask(config, ready ? "/readyz" : "/healthz", TIMEOUT_S, &instance, &body);
    terminal_print(&body, stdout);
    if (instance.state == LOCAL_NOT_ASKED)
        fputs("queue-sidecar healthcheck: http.port is 0, so the sidecar does not serve its health: set a port\n", stderr);
    else if (instance.state != LOCAL_ANSWERED)
        fprintf(stderr, "queue-sidecar healthcheck: %s port %lld: %s\n", config->http.listen, (long long)config->http.port,
                instance.why);
    if (instance.state == LOCAL_ANSWERED && instance.well) return CLI_OK;
    return instance.state == LOCAL_ANSWERED || instance.state == LOCAL_UNRELATED ? CLI_FAILED : no_answer;
}

static int healthcheck_run(const cli_args_t *args) {
    config_t *config = cli_load_config_file(args->config);
    int no_answer = config ? CLI_FAILED : CLI_BAD_CONFIG;
    // A sidecar with its previous config is well. If a probe killed it now, it could not start again with the refused one.
    if (!config) config = cli_load_kept_config(args->config); // a fault of syntax would hide the port
    if (!config) config = config_load_refused(args->config, dialect_settings);
    if (!config) return CLI_BAD_CONFIG;
    int status = healthcheck_ask(config, args->ready, no_answer);
    config_free(config);
    return status;
}

static const cli_option_t healthcheck_table[] = {
    CLI_OPTION_CONFIG,
    CLI_FLAG(cli_args_t, 0, "ready", ready,
             "ask whether the sidecar works (reaches Redis, and leads or stands by), not only whether it is alive"),
};

const cli_command_t cli_healthcheck_command = {
    .name = "healthcheck",
    .summary = "Ask a running sidecar whether it is well",
    .examples = "queue-sidecar healthcheck\task /healthz at http.listen and http.port of the config\n"
                "queue-sidecar healthcheck --ready\task /readyz, and print its checks\n",
    .usage = "healthcheck [-c FILE] [--ready]",
    CLI_OPTIONS(healthcheck_table),
    .text =
        "For HEALTHCHECK of docker and podman, and for exec probes. If the config is refused, prints its faults and still asks "
        "the sidecar, which may run with its previous config.",
    .exits = "0 well\n1 not well, or no answer\n2 wrong usage\n78 bad config, and no answer\n",
    .run = healthcheck_run,
};
