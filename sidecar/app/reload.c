#include "app/reload.h"

#include <stdlib.h>
#include <string.h>

#include "app/log_setup.h"
#include "base/log.h"
#include "dialects/registry.h"

static void reload_clear(char **text) {
    free(*text);
    *text = NULL;
}

void reload_end(reload_t *reload) {
    reload_clear(&reload->refused);
    reload_clear(&reload->changes);
}

// Each line of `why` is one error. Repeats are logged only when somebody asked.
static void reload_refuse(reload_t *reload, buffer_t *why, bool asked, metrics_t *metrics) {
    metric_set(&metrics->config_bad, 1);
    bool known = reload->refused && strcmp(reload->refused, buffer_text(why)) == 0;
    if (!known) {
        free(reload->refused);
        reload->refused = mem_printf("%s", buffer_text(why));
        metric_add(&metrics->reload_faults, 1);
    }
    if (known && !asked) return;
    char *rest = why->data;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        if (*line) log_error("main", NULL, "new configuration refused; keeping the old one", F_STR("reason", line));
}

static void reload_refuse_frozen(reload_t *reload, const buffer_t *frozen, bool asked, metrics_t *metrics) {
    buffer_t why = {0};
    buffer_printf(&why, "cannot change while the sidecar runs: %s; put them back, or restart it", buffer_text(frozen));
    reload_refuse(reload, &why, asked, metrics);
    buffer_free(&why);
}

static bool reload_has_queue(const config_t *config, const char *name) {
    for (size_t i = 0; i < config->queue_count; i++)
        if (strcmp(config->queues[i].name, name) == 0) return true;
    return false;
}

void reload_warn_uncopied_records(const config_t *current, const config_t *fresh) {
    for (size_t i = 0; i < current->queue_count; i++) {
        const char *name = current->queues[i].name;
        if (reload_has_queue(fresh, name)) continue;
        char *stream = mem_printf("sidecar:%s:failures", name);
        log_warn("main", name, "removed a queue with uncopied records; they stay in redis until the queue is configured again",
                 F_STR("stream", stream));
        free(stream);
    }
}

config_t *reload_read(reload_t *reload, const config_t *current, bool asked, metrics_t *metrics) {
    buffer_t messages = {0};
    buffer_t frozen = {0};
    buffer_t changes = {0};
    config_t *fresh = config_load(current->path, dialect_settings, &messages);
    if (fresh) config_changes(current, fresh, &frozen, &changes);
    bool taken = fresh && !frozen.len && changes.len;
    if (!fresh) {
        reload_refuse(reload, &messages, asked, metrics);
    } else if (frozen.len) {
        reload_refuse_frozen(reload, &frozen, asked, metrics);
    } else {
        bool was_bad = reload->refused;
        reload_clear(&reload->refused);
        metric_set(&metrics->config_bad, 0);
        if (taken) {
            reload_clear(&reload->changes);
            reload->changes = mem_str(buffer_text(&changes));
        }
        if (taken)
            log_info("main", NULL, "new configuration", F_STR("config", current->path), F_STR("changes", buffer_text(&changes)));
        else if (asked || was_bad)
            log_info("main", NULL, "configuration unchanged", F_STR("config", current->path));
        if (taken || asked) app_log_warnings(&messages);
    }
    buffer_free(&messages);
    buffer_free(&frozen);
    buffer_free(&changes);
    if (taken) return fresh;
    config_free(fresh);
    return NULL;
}
