// Loads the config for commands.
#include "audit/kept_config.h"
#include "base/text/time_text.h"
#include "cli/args.h"
#include "config/table.h"
#include "dialects/registry.h"

static void load_print_messages(const buffer_t *messages, const char *before) {
    for (const char *line = buffer_text(messages); *line;) {
        int len = (int)strcspn(line, "\n");
        fprintf(stderr, "%s%.*s\n", before, len, line);
        line += len + (line[len] == '\n');
    }
}

config_t *cli_load_config_file(const char *path) {
    buffer_t messages = {0};
    config_t *config = config_load(path, dialect_settings, &messages);
    load_print_messages(&messages, config ? "warning: " : "");
    buffer_free(&messages);
    return config;
}

// The first fault, how many follow, and what is used instead.
static void load_warn(const buffer_t *faults, const config_t *config, const kept_config_t *kept) {
    const char *text = buffer_text(faults);
    size_t count = 0, first = strcspn(text, "\n");
    for (const char *at = text; *at; at++) count += *at == '\n';
    fprintf(stderr, "warning: %.*s", (int)first, text);
    if (count > 1) fprintf(stderr, " (and %zu more: see `queue-sidecar check`)", count - 1);
    fprintf(stderr, "; %s since %s %s, from %s",
            kept->in_effect ? "using the config in effect" : "no instance runs with it: using the last config in effect,",
            time_text(kept->since_ms, false, TIME_SECONDS).text, time_zone(kept->since_ms, false).text, kept->path);
    const redis_config_t *redis = &config->redis;
    if (kept->hides && !*redis->password && !*redis->password_file && !*redis->sentinel_password &&
        !*redis->sentinel_password_file)
        fputs(", which holds no passwords: set QUEUE_SIDECAR_REDIS_PASSWORD", stderr);
    fputs("\n", stderr);
}

// Finds the copy beside the log that the refused file or the environment names, or else beside `log` or the default log: a fault
// of syntax hides the name. These two may be of a time when the file named another log, unless an instance holds them.
static config_t *load_kept(const char *path, const char *log, kept_config_t *kept) {
    config_t *refused = config_load_refused(path, dialect_settings), *config = NULL;
    const char *const logs[] = {refused ? refused->audit.path : getenv("QUEUE_SIDECAR_AUDIT_PATH"), log,
                                config_key_find("audit", "path")->fallback};
    for (size_t i = 0; i < sizeof logs / sizeof *logs && !config; i++) {
        buffer_t ignored = {0};
        if (!logs[i] || !*logs[i] || !kept_config_find(logs[i], path, kept)) continue;
        if (i == 0 || kept->in_effect) config = config_load(kept->path, dialect_settings, &ignored);
        if (!config) free(kept->path);
        buffer_free(&ignored);
    }
    if (config && refused) config_take_secrets(config, refused);
    config_free(refused);
    return config;
}

config_t *cli_load_config_beside(const char *path, const char *log) {
    buffer_t messages = {0};
    kept_config_t kept;
    config_t *config = config_load(path, dialect_settings, &messages);
    if (config) {
        load_print_messages(&messages, "warning: ");
    } else if ((config = load_kept(path, log, &kept)) != NULL) {
        load_warn(&messages, config, &kept);
        free(kept.path);
        free(config->path);
        config->path = mem_str(path); // for messages and advice
    } else {
        load_print_messages(&messages, "");
    }
    buffer_free(&messages);
    return config;
}

config_t *cli_load_kept_config(const char *path) {
    kept_config_t kept;
    config_t *config = load_kept(path, NULL, &kept);
    if (config) free(kept.path);
    return config;
}

config_t *cli_load_config(const char *path) { return cli_load_config_beside(path, NULL); }
