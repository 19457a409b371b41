// queue-sidecar run: the sidecar itself, in the foreground.

#include "app/app.h"
#include "app/reload.h"
#include "audit/audit.h"
#include "base/log.h"
#include "cli/args.h"
#include "dialects/registry.h"
#include "version.h"

// `config` may be NULL. Of a refused config these keys are read, if they are right.
static bool run_setup_log(const config_t *config) {
    log_format_name_t format = config ? config->log.format : FORMAT_AUTO;
    bool json = format == FORMAT_JSON || (format == FORMAT_AUTO && !isatty(STDERR_FILENO));
    log_setup(config ? config->log.level : LOG_INFO, json);
    return json;
}

// Writes the faults as log lines if the log is JSON: its readers could not parse plain text.
static int run_refuse(const config_t *config, buffer_t *messages) {
    bool json = run_setup_log(config);
    char *rest = json ? messages->data : NULL;
    for (const char *line; (line = reload_next_line(&rest)) != NULL;)
        log_error("main", NULL, "cannot start: configuration refused", F_STR("reason", line));
    if (!json) fputs(buffer_text(messages), stderr);
    buffer_free(messages);
    return CLI_BAD_CONFIG;
}

static int run_command(const cli_args_t *args) {
    buffer_t messages = {0}, faults = {0};
    app_hold_signals();
    config_t *config = config_load(args->config, dialect_settings, &messages);
    config_t *refused = config ? NULL : config_load_refused(args->config, dialect_settings);
    int status = CLI_OK;
    if (!config)
        status = run_refuse(refused, &messages);
    else if (!cli_check_tls_files(config, &faults))
        status = run_refuse(config, &faults);
    config_free(refused);
    if (!config || status != CLI_OK) {
        buffer_free(&messages);
        config_free(config);
        return status;
    }
    run_setup_log(config);
    log_info("main", NULL, "queue-sidecar starts", F_STR("version", QS_VERSION), F_STR("config", config->path),
             F_STR("group", config->group), F_INT("queues", config->queue_count), F_INT("pid", getpid()));
    reload_log_warnings(&messages);
    buffer_free(&messages);
    cli_find_mode(config);
    if (config->redis.found == REDIS_MODE_CLUSTER) log_info("main", NULL, "redis is a Cluster");
    return app_run(config);
}

static const cli_option_t run_table[] = {CLI_OPTION_CONFIG};

const cli_command_t cli_run_command = {
    .name = "run",
    .summary = "Serve the queues of a config, in the foreground",
    .examples = "queue-sidecar run\tthe config at its default place\n"
                "queue-sidecar run -c queue-sidecar.cfg\tanother config\n",
    .usage = "run [-c FILE]",
    CLI_OPTIONS(run_table),
    .text = "The sidecar logs on standard error: JSON lines, or text on a terminal. Redis may start after the sidecar.\n\n"
            "At SIGTERM or SIGINT it finishes the requests in flight, releases the lock and exits with 0; another signal, "
            "after a second or more, ends it at once. At SIGHUP it reads the config again. At SIGUSR1 it logs the counters.",
    .exits = "0 stopped by a signal\n1 failed\n2 wrong usage\n78 bad config\n",
    .run = run_command,
};
