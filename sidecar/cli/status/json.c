// status for programs: one object on one line. docs/status.md describes it; names stay, new ones may come.
#include <inttypes.h>
#include <string.h>

#include "base/json/write.h"
#include "cli/status/checks.h"
#include "cli/terminal.h"
#include "cli/time_text.h"
#include "dialects/dialect.h"

static void comma(buffer_t *out) {
    char last = out->data[out->len - 1];
    if (last != '{' && last != '[') buffer_str(out, ",");
}

static void name(buffer_t *out, const char *key) {
    comma(out);
    buffer_printf(out, "\"%s\":", key);
}

// "" = null.
static void put_text(buffer_t *out, const char *key, const char *text) {
    name(out, key);
    if (text && *text)
        json_write_string(out, slice_text(text));
    else
        buffer_str(out, "null");
}

static void put_bool(buffer_t *out, const char *key, bool yes) {
    name(out, key);
    buffer_str(out, yes ? "true" : "false");
}

// Below 0 = null.
static void put_number(buffer_t *out, const char *key, int64_t number) {
    name(out, key);
    if (number < 0)
        buffer_str(out, "null");
    else
        buffer_printf(out, "%" PRId64, number);
}

static void put_seconds(buffer_t *out, const char *key, int64_t ms) {
    name(out, key);
    if (ms < 0)
        buffer_str(out, "null");
    else
        buffer_printf(out, "%" PRId64 ".%03d", ms / 1000, (int)(ms % 1000));
}

// A time, RFC 3339; below 0, and where it never comes, null.
static void put_time(buffer_t *out, const char *key, int64_t ms) {
    static const int64_t last = INT64_C(253402300799999); // of the year 9999
    char text[TIME_TEXT_SIZE];
    time_format_rfc3339(ms < 0 || ms > last ? 0 : ms, text);
    put_text(out, key, ms < 0 || ms > last ? "" : text);
}

static int64_t age(int64_t now_ms, int64_t ms) { return ms < 0 ? STATUS_UNKNOWN : now_ms > ms ? now_ms - ms : 0; }

static void put_redis(const status_t *s, buffer_t *out) {
    name(out, "redis");
    buffer_str(out, "{");
    put_text(out, "address", s->target);
    put_bool(out, "reachable", s->reached);
    put_text(out, "error", s->reached ? "" : s->error.text);
    put_text(out, "server", s->reached ? s->server : "");
    put_number(out, "memory_bytes", s->reached ? s->view.memory_used : STATUS_UNKNOWN);
    put_number(out, "memory_limit_bytes", s->reached && s->view.memory_most > 0 ? s->view.memory_most : STATUS_UNKNOWN);
    buffer_str(out, "}");
}

static void put_standbys(const overview_lock_t *lock, int64_t now_ms, buffer_t *out) {
    name(out, "standbys");
    buffer_str(out, "[");
    for (size_t i = 0; lock->standbys && i < lock->standby_count; i++) {
        comma(out);
        buffer_str(out, "{");
        put_text(out, "instance", lock->standbys[i].instance);
        put_bool(out, "lives", lock->standbys[i].lives);
        put_seconds(out, "heard_seconds_ago", age(now_ms, lock->standbys[i].heard_ms));
        buffer_str(out, "}");
    }
    buffer_str(out, "]");
}

static void put_locks(const status_t *s, buffer_t *out) {
    name(out, "locks");
    buffer_str(out, "[");
    for (size_t i = 0; s->reached && i < s->view.lock_count; i++) {
        const overview_lock_t *lock = &s->view.locks[i];
        comma(out);
        buffer_str(out, "{");
        put_text(out, "key", s->keys->locks[i].key);
        put_text(out, "leader", lock->leader);
        put_text(out, "term", lock->holder);
        put_time(out, "since", lock->since_ms ? lock->since_ms : STATUS_UNKNOWN);
        put_seconds(out, "ttl_seconds", lock->pttl_ms);
        put_standbys(lock, s->view.now_ms, out);
        buffer_str(out, "}");
    }
    buffer_str(out, "]");
}

static void put_copies(const status_t *s, size_t queue, buffer_t *out) {
    const overview_queue_t *view = &s->view.queues[queue];
    name(out, "copies");
    buffer_str(out, "[");
    for (size_t i = 0; view->copies && i < view->copy_count; i++) {
        const overview_copy_t *copy = &view->copies[i];
        comma(out);
        buffer_str(out, "{");
        put_text(out, "instance", copy->instance);
        put_bool(out, "here", strcmp(copy->instance, s->log.instance) == 0);
        put_text(out, "position", copy->position);
        put_bool(out, "complete", status_is_complete(view, copy));
        put_seconds(out, "heard_seconds_ago", age(s->view.now_ms, copy->heard_ms));
        buffer_str(out, "}");
    }
    buffer_str(out, "]");
}

static void put_recent(const status_recent_t *recent, buffer_t *out) {
    put_number(out, "retried_last_hour", recent->retried);
    put_number(out, "failed_last_hour", recent->failed);
    name(out, "failed_last_hour_by_reason");
    buffer_str(out, "{");
    for (size_t i = 0; i < STATUS_REASONS; i++)
        put_number(out, status_reasons[i], recent->failed < 0 ? STATUS_UNKNOWN : recent->reasons[i]);
    buffer_str(out, "}");
    put_bool(out, "last_hour_is_partial", recent->more);
}

static void put_queue(const status_t *s, size_t queue, buffer_t *out) {
    const census_t *counts = &s->counts[queue];
    const overview_queue_t *view = &s->view.queues[queue];
    const queue_config_t *config = s->keys->queues[queue].config;
    bool due = counts->next_due_ms >= 0;
    comma(out);
    buffer_str(out, "{");
    put_text(out, "name", config->name);
    put_text(out, "dialect", config_dialect_word(config->dialect));
    put_bool(out, "served", view->served);
    put_text(out, "owner", view->owner);
    put_number(out, "delayed", counts->delayed);
    put_number(out, "ready", counts->ready);
    put_number(out, "in_progress", counts->in_progress);
    put_time(out, "next_due", counts->next_due_ms);
    put_seconds(out, "overdue_seconds", due ? census_overdue_ms(counts) : STATUS_UNKNOWN);
    put_time(out, "oldest_in_progress", counts->oldest_in_progress_ms);
    put_seconds(out, "oldest_in_progress_seconds", age(counts->now_ms, counts->oldest_in_progress_ms));
    put_recent(&s->recent[queue], out);
    put_number(out, "records", counts->records);
    put_number(out, "record_bytes", counts->record_bytes);
    put_number(out, "record_bytes_limit", s->config->stream.max_bytes);
    put_seconds(out, "audit_lag_seconds",
                *view->error        ? STATUS_UNKNOWN
                : view->uncopied_ms ? age(s->view.now_ms, view->uncopied_ms)
                                    : 0);
    put_copies(s, queue, out);
    put_text(out, "fault", *view->error ? view->error : counts->error);
    buffer_str(out, "}");
}

static void put_log(const status_t *s, buffer_t *out) {
    name(out, "audit_log");
    buffer_str(out, "{");
    put_text(out, "path", s->config->audit.path);
    put_bool(out, "readable", s->log.there);
    put_text(out, "error", s->log.why);
    put_text(out, "instance", s->log.instance);
    put_number(out, "open_gaps", s->log.there ? s->log.open_gaps : STATUS_UNKNOWN);
    buffer_str(out, "}");
}

static void put_here(const status_here_t *here, buffer_t *out) {
    name(out, "instance_here");
    if (!here->asked) {
        buffer_str(out, "null");
        return;
    }
    buffer_str(out, "{");
    put_bool(out, "answered", here->answered);
    put_text(out, "error", here->why);
    put_bool(out, "ready", here->ready);
    name(out, "checks");
    buffer_str(out, "[");
    for (size_t i = 0; i < here->count; i++) {
        comma(out);
        buffer_str(out, "{");
        put_text(out, "check", here->checks[i].name);
        put_bool(out, "ok", here->checks[i].ok);
        put_text(out, "why", here->checks[i].why);
        put_text(out, "state", here->checks[i].state);
        buffer_str(out, "}");
    }
    buffer_str(out, "]}");
}

static void put_finding(const status_t *s, const status_finding_t *finding, buffer_t *out) {
    static const char *const severities[] = {"note", "warning", "fault"};
    comma(out);
    buffer_str(out, "{");
    put_text(out, "severity", severities[finding->severity]);
    put_text(out, "code", finding->code);
    name(out, "queues");
    buffer_str(out, "[");
    for (size_t i = 0; i < finding->queue_count; i++) {
        comma(out);
        json_write_string(out, slice_text(s->keys->queues[finding->queues[i]].config->name));
    }
    buffer_str(out, "]");
    put_text(out, "what", finding->what);
    put_text(out, "why", finding->why);
    put_text(out, "next", finding->next);
    buffer_str(out, "}");
}

void status_json(const status_t *status, const status_findings_t *findings, const bool *wanted, buffer_t *out) {
    static const char *const sources[] = {"", "audit_log", "failure_stream"};
    buffer_str(out, "{");
    put_time(out, "at", status->reached && status->view.now_ms > 0 ? status->view.now_ms : status->wall_ms);
    put_text(out, "group", status->config->group);
    put_bool(out, "well", status->reached && findings->faults + findings->warnings == 0);
    put_redis(status, out);
    put_locks(status, out);
    name(out, "queues");
    buffer_str(out, "[");
    for (size_t i = 0; status->reached && i < status->keys->queue_count; i++)
        if (!wanted || wanted[i]) put_queue(status, i, out);
    buffer_str(out, "]");
    put_text(out, "last_hour_from", sources[status->source]);
    put_log(status, out);
    put_here(&status->here, out);
    name(out, "findings");
    buffer_str(out, "[");
    for (size_t i = 0; i < findings->count; i++) put_finding(status, &findings->items[i], out);
    buffer_str(out, "]}\n");
}
