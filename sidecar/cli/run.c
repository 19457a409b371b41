// queue-sidecar run: the sidecar itself, in the foreground.
#include <stdio.h>
#include <unistd.h>

#include "app.h"
#include "app_log.h"
#include "base/log.h"
#include "cli/cli.h"
#include "config.h"

const char cli_run_help[] =
    "Examples:\n"
    "  queue-sidecar run                         the config at its usual place\n"
    "  queue-sidecar run -c queue-sidecar.cfg    another one\n"
    "\n"
    "Usage: queue-sidecar run [-c FILE]\n"
    "\n"
    "  -c, --config FILE  the config; otherwise QUEUE_SIDECAR_CONFIG, otherwise /etc/queue-sidecar/queue-sidecar.cfg\n"
    "\n"
    "Runs in the foreground and logs on standard error: JSON lines, or text on a terminal. Redis need not be there yet.\n"
    "SIGTERM or SIGINT: ends what is in flight, gives the lock back, exits with 0; a second one ends the process at once.\n"
    "SIGUSR1: writes what was counted so far into the log. Exit codes: 0 told to end, 1 failed, 78 bad config.\n";

static bool log_as_json(const config_t *config) {
    switch (config->log.format) {
    case FORMAT_JSON: return true;
    case FORMAT_TEXT: return false;
    case FORMAT_AUTO: break;
    }
    return !isatty(STDERR_FILENO);
}

int cli_run(int argc, char **argv) {
    const char *path = NULL;
    buffer_t messages = {0};
    const cli_option_t options[] = {{.letter = 'c', .name = "config", .value = &path}};
    int status = cli_parse(argc, argv, options, sizeof options / sizeof *options);
    if (status != CLI_OK) return status;
    config_t *config = cli_read_config(cli_config_path(path), &messages);
    if (!config) {
        fputs(buffer_text(&messages), stderr);
        buffer_free(&messages);
        return CLI_BAD_CONFIG;
    }
    log_setup(app_log_level(config), log_as_json(config));
    log_info("main", NULL, "queue-sidecar starts", F_STR("version", QS_VERSION), F_STR("config", config->path),
             F_STR("group", config->group), F_INT("queues", config->queue_count), F_INT("pid", getpid()));
    app_log_warnings(&messages);
    buffer_free(&messages);
    return app_run(config);
}
