#include "app/reload.h"

#include <stdalign.h>
#include <sys/inotify.h>

#include "base/log.h"
#include "dialects/registry.h"

void reload_begin(reload_t *reload, config_t *config) {
    reload->mode = config->redis.found;
    reload->files = config->files;
    config->files = (config_files_t){0};
}

void reload_end(reload_t *reload) {
    config_files_clear(&reload->files);
    condition_free(&reload->refused);
    free(reload->changes);
}

const char *reload_next_line(char **rest) {
    char *line = strsep(rest, "\n");
    while (line && !*line) line = strsep(rest, "\n");
    return line;
}

void reload_log_warnings(buffer_t *warnings) {
    char *rest = warnings->data;
    for (const char *line; (line = reload_next_line(&rest)) != NULL;)
        log_warn("main", NULL, "configuration warning", F_STR("reason", line));
}

// Each line of `why` is one error. The same errors are logged again only if `asked`.
static void reload_refuse(reload_t *reload, buffer_t *why, bool asked, metrics_t *metrics) {
    bool began = condition_update_reason(&reload->refused, buffer_text(why)) == CONDITION_BEGAN;
    metric_set(&metrics->config_bad, 1);
    if (began) metric_add(&metrics->reload_faults, 1);
    if (!began && !asked) return;
    char *rest = why->data;
    for (const char *line; (line = reload_next_line(&rest)) != NULL;)
        log_error("main", NULL, "new configuration refused; keeping the old one", F_STR("reason", line));
}

static void reload_accept(reload_t *reload, config_t *fresh, const buffer_t *changes, bool asked, metrics_t *metrics) {
    bool was_refused = condition_update_reason(&reload->refused, NULL) == CONDITION_ENDED;
    metric_set(&metrics->config_bad, 0);
    config_files_clear(&reload->files);
    reload->files = fresh->files;
    fresh->files = (config_files_t){0};
    if (changes->len) {
        free(reload->changes);
        reload->changes = mem_str(buffer_text(changes));
        log_info("main", NULL, "new configuration", F_STR("config", fresh->path), F_STR("changes", reload->changes));
    } else if (asked || was_refused) {
        log_info("main", NULL, "configuration unchanged", F_STR("config", fresh->path));
    }
}

void reload_warn_uncopied_records(const config_t *current, const config_t *fresh) {
    for (size_t i = 0; i < current->queue_count; i++) {
        const char *name = current->queues[i].name;
        if (config_find_queue(fresh, name)) continue;
        char *stream = mem_printf("sidecar:%s:failures", name);
        log_warn("main", name, "removed a queue with uncopied records; they stay in redis until the queue is configured again",
                 F_STR("stream", stream));
        free(stream);
    }
}

static bool reload_found_cluster(const reload_t *reload, const config_t *current) {
    return reload->mode == REDIS_MODE_CLUSTER && reload->mode != current->redis.found;
}

static bool reload_is_due(const reload_t *reload, const config_t *current) {
    if (reload->refused.holds || reload_found_cluster(reload, current)) return true;
    return config_files_changed(&reload->files);
}

config_t *reload_read(reload_t *reload, const config_t *current, bool asked, metrics_t *metrics) {
    if (!asked && !reload_is_due(reload, current)) return NULL;
    buffer_t messages = {0};
    buffer_t frozen = {0};
    buffer_t changes = {0};
    config_t *fresh = config_load(current->path, dialect_settings, &messages);
    if (fresh) config_changes(current, fresh, &frozen, &changes);
    if (fresh) fresh->redis.found = reload->mode;
    if (fresh && reload_found_cluster(reload, current)) buffer_printf(&changes, "%sredis is a Cluster", changes.len ? ", " : "");
    if (fresh && reload->mode == REDIS_MODE_CLUSTER && !frozen.len && !config_may_be_cluster(fresh))
        buffer_str(&frozen, "a queue that cannot work in a Cluster");
    if (frozen.len) {
        buffer_clear(&messages);
        buffer_printf(&messages, "cannot change while running: %s; restore them, or restart the sidecar", buffer_text(&frozen));
    }
    bool good = fresh && !frozen.len, taken = good && changes.len;
    if (good)
        reload_accept(reload, fresh, &changes, asked, metrics);
    else
        reload_refuse(reload, &messages, asked, metrics);
    if (taken || (good && asked)) reload_log_warnings(&messages);
    buffer_free(&messages);
    buffer_free(&frozen);
    buffer_free(&changes);
    if (taken) return fresh;
    config_free(fresh);
    return NULL;
}

int reload_watch(const char *path) {
    const char *slash = strrchr(path, '/');
    char *directory = slash ? mem_printf("%.*s", (int)(slash - path + 1), path) : mem_printf(".");
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd >= 0 && inotify_add_watch(fd, directory, IN_MOVED_TO | IN_CREATE | IN_ONLYDIR) < 0) {
        close(fd);
        fd = -1;
    }
    free(directory);
    return fd;
}

bool reload_was_swapped(int fd) {
    alignas(struct inotify_event) char events[4096];
    bool swapped = false;
    for (ssize_t len; (len = read(fd, events, sizeof events)) > 0;)
        for (ssize_t at = 0; at < len;) {
            const struct inotify_event *event = (const void *)(events + at);
            if (event->mask & IN_Q_OVERFLOW || (event->len && strcmp(event->name, "..data") == 0)) swapped = true;
            at += (ssize_t)(sizeof *event + event->len);
        }
    return swapped;
}
