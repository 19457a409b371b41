// status for programs: one object on one line. docs/status.md describes it; a field never changes its name; fields may be added.
#include <inttypes.h>
#include <string.h>

#include "base/json/write.h"
#include "cli/status/checks.h"
#include "cli/time_text.h"

static void status_json_comma(buffer_t *out) {
    char last = out->data[out->len - 1];
    if (last != '{' && last != '[') buffer_str(out, ",");
}

static void status_json_key(buffer_t *out, const char *key) {
    status_json_comma(out);
    buffer_printf(out, "\"%s\":", key);
}

// Begins an object or array: the value of a key, or an item of an array where the key is NULL.
static void status_json_open(buffer_t *out, const char *key, const char *bracket) {
    if (key)
        status_json_key(out, key);
    else
        status_json_comma(out);
    buffer_str(out, bracket);
}

// "" = null.
static void status_json_text(buffer_t *out, const char *key, const char *text) {
    status_json_key(out, key);
    if (text && *text)
        json_write_string(out, slice_text(text));
    else
        buffer_str(out, "null");
}

static void status_json_bool(buffer_t *out, const char *key, bool yes) {
    status_json_key(out, key);
    buffer_str(out, yes ? "true" : "false");
}

// Below 0 = null.
static void status_json_number(buffer_t *out, const char *key, int64_t number) {
    status_json_key(out, key);
    if (number < 0)
        buffer_str(out, "null");
    else
        buffer_printf(out, "%" PRId64, number);
}

static void status_json_seconds(buffer_t *out, const char *key, int64_t ms) {
    status_json_number(out, key, ms < 0 ? ms : ms / 1000);
    if (ms >= 0) buffer_printf(out, ".%03d", (int)(ms % 1000));
}

// A time, RFC 3339; below 0, and where it never comes, null.
static void status_json_time(buffer_t *out, const char *key, int64_t ms) {
    static const int64_t last = INT64_C(253402300799999); // of the year 9999
    char text[TIME_TEXT_SIZE];
    time_format_rfc3339(ms < 0 || ms > last ? 0 : ms, text);
    status_json_text(out, key, ms < 0 || ms > last ? "" : text);
}

static int64_t status_json_age(int64_t now_ms, int64_t ms) { return ms < 0 ? STATUS_UNKNOWN : now_ms > ms ? now_ms - ms : 0; }

static void status_json_redis(const status_t *s, buffer_t *out) {
    status_json_open(out, "redis", "{");
    status_json_text(out, "address", s->target);
    status_json_bool(out, "reachable", s->reached);
    status_json_text(out, "error", s->reached ? "" : s->error.text);
    status_json_text(out, "server", s->reached ? s->server : "");
    status_json_number(out, "memory_bytes", s->reached ? s->snapshot.memory_used : STATUS_UNKNOWN);
    status_json_number(out, "memory_limit_bytes",
                       s->reached && s->snapshot.memory_most > 0 ? s->snapshot.memory_most : STATUS_UNKNOWN);
    buffer_str(out, "}");
}

static void status_json_standbys(const snapshot_lock_t *lock, int64_t now_ms, buffer_t *out) {
    status_json_open(out, "standbys", "[");
    for (size_t i = 0; lock->standbys && i < lock->standby_count; i++) {
        status_json_open(out, NULL, "{");
        status_json_text(out, "instance", lock->standbys[i].instance);
        status_json_bool(out, "lives", lock->standbys[i].lives);
        status_json_seconds(out, "heard_seconds_ago", status_json_age(now_ms, lock->standbys[i].heard_ms));
        buffer_str(out, "}");
    }
    buffer_str(out, "]");
}

static void status_json_locks(const status_t *s, buffer_t *out) {
    status_json_open(out, "locks", "[");
    for (size_t i = 0; s->reached && i < s->snapshot.lock_count; i++) {
        const snapshot_lock_t *lock = &s->snapshot.locks[i];
        status_json_open(out, NULL, "{");
        status_json_text(out, "key", s->keys->locks[i].key);
        status_json_text(out, "leader", lock->leader);
        status_json_text(out, "term", lock->holder);
        status_json_time(out, "since", lock->since_ms ? lock->since_ms : STATUS_UNKNOWN);
        status_json_seconds(out, "ttl_seconds", lock->pttl_ms);
        status_json_standbys(lock, s->snapshot.now_ms, out);
        buffer_str(out, "}");
    }
    buffer_str(out, "]");
}

static void status_json_copies(const status_t *s, size_t queue, buffer_t *out) {
    const snapshot_queue_t *snapshot = &s->snapshot.queues[queue];
    status_json_open(out, "copies", "[");
    for (size_t i = 0; snapshot->copies && i < snapshot->copy_count; i++) {
        const snapshot_copy_t *copy = &snapshot->copies[i];
        status_json_open(out, NULL, "{");
        status_json_text(out, "instance", copy->instance);
        status_json_bool(out, "here", strcmp(copy->instance, s->log.instance) == 0);
        status_json_text(out, "position", copy->position);
        status_json_bool(out, "complete", status_is_complete(snapshot, copy));
        status_json_seconds(out, "heard_seconds_ago", status_json_age(s->snapshot.now_ms, copy->heard_ms));
        buffer_str(out, "}");
    }
    buffer_str(out, "]");
}

static void status_json_recent(const status_recent_t *recent, buffer_t *out) {
    status_json_number(out, "retried_last_hour", recent->retried);
    status_json_number(out, "failed_last_hour", recent->failed);
    status_json_open(out, "failed_last_hour_by_reason", "{");
    for (size_t i = 0; i < STATUS_REASONS; i++)
        status_json_number(out, status_reasons[i], recent->failed < 0 ? STATUS_UNKNOWN : recent->reasons[i]);
    buffer_str(out, "}");
    status_json_bool(out, "last_hour_is_partial", recent->partial);
}

static void status_json_queue(const status_t *s, size_t queue, buffer_t *out) {
    const sizes_t *sizes = &s->sizes[queue];
    const snapshot_queue_t *snapshot = &s->snapshot.queues[queue];
    const queue_config_t *config = s->keys->queues[queue].config;
    bool due = sizes->next_due_ms >= 0;
    status_json_open(out, NULL, "{");
    status_json_text(out, "name", config->name);
    status_json_text(out, "dialect", config_dialect_word(config->dialect));
    status_json_bool(out, "served", snapshot->served);
    status_json_text(out, "owner", snapshot->owner);
    status_json_number(out, "delayed", sizes->delayed);
    status_json_number(out, "ready", sizes->ready);
    status_json_number(out, "in_progress", sizes->in_progress);
    status_json_time(out, "next_due", sizes->next_due_ms);
    status_json_seconds(out, "overdue_seconds", due ? sizes_overdue_ms(sizes) : STATUS_UNKNOWN);
    status_json_time(out, "oldest_in_progress", sizes->oldest_in_progress_ms);
    status_json_seconds(out, "oldest_in_progress_seconds", status_json_age(sizes->now_ms, sizes->oldest_in_progress_ms));
    status_json_recent(&s->recent[queue], out);
    status_json_number(out, "records", sizes->records);
    status_json_number(out, "record_bytes", sizes->record_bytes);
    status_json_number(out, "record_bytes_limit", s->config->stream.max_bytes);
    status_json_seconds(out, "audit_lag_seconds",
                        *snapshot->error        ? STATUS_UNKNOWN
                        : snapshot->uncopied_ms ? status_json_age(s->snapshot.now_ms, snapshot->uncopied_ms)
                                                : 0);
    status_json_copies(s, queue, out);
    status_json_text(out, "fault", *snapshot->error ? snapshot->error : sizes->error);
    buffer_str(out, "}");
}

static void status_json_log(const status_t *s, buffer_t *out) {
    status_json_open(out, "audit_log", "{");
    status_json_text(out, "path", s->config->audit.path);
    status_json_bool(out, "readable", s->log.readable);
    status_json_text(out, "error", s->log.why);
    status_json_text(out, "instance", s->log.instance);
    status_json_number(out, "open_gaps", s->log.readable ? s->log.open_gaps : STATUS_UNKNOWN);
    buffer_str(out, "}");
}

static void status_json_instance(const local_instance_t *here, buffer_t *out) {
    status_json_key(out, "instance_here");
    if (here->state == LOCAL_NOT_ASKED) {
        buffer_str(out, "null");
        return;
    }
    buffer_str(out, "{");
    status_json_bool(out, "answered", here->state == LOCAL_ANSWERED);
    status_json_text(out, "error", here->why);
    status_json_bool(out, "ready", here->state == LOCAL_ANSWERED && here->well);
    status_json_open(out, "checks", "[");
    for (size_t i = 0; i < here->count; i++) {
        status_json_open(out, NULL, "{");
        status_json_text(out, "check", here->checks[i].name);
        status_json_bool(out, "ok", !*here->checks[i].why);
        status_json_text(out, "why", here->checks[i].why);
        status_json_text(out, "state", here->checks[i].state);
        buffer_str(out, "}");
    }
    buffer_str(out, "]}");
}

static void status_json_finding(const status_t *s, const status_finding_t *finding, buffer_t *out) {
    static const char *const severities[] = {"note", "warning", "fault"};
    status_json_open(out, NULL, "{");
    status_json_text(out, "severity", severities[finding->severity]);
    status_json_text(out, "code", finding->code);
    status_json_open(out, "queues", "[");
    for (size_t i = 0; i < finding->queue_count; i++) {
        status_json_comma(out);
        json_write_string(out, slice_text(s->keys->queues[finding->queues[i]].config->name));
    }
    buffer_str(out, "]");
    status_json_text(out, "what", finding->what);
    status_json_text(out, "why", finding->why);
    status_json_text(out, "next", finding->next);
    buffer_str(out, "}");
}

void status_json(const status_t *status, const status_findings_t *findings, const bool *wanted, buffer_t *out) {
    static const char *const sources[] = {"", "audit_log", "failure_stream"};
    buffer_str(out, "{");
    status_json_time(out, "at", status->reached && status->snapshot.now_ms > 0 ? status->snapshot.now_ms : status->wall_ms);
    status_json_text(out, "group", status->config->group);
    status_json_bool(out, "well", status->reached && findings->of[STATUS_FAULT] + findings->of[STATUS_WARNING] == 0);
    status_json_redis(status, out);
    status_json_locks(status, out);
    status_json_open(out, "queues", "[");
    for (size_t i = 0; status->reached && i < status->keys->queue_count; i++)
        if (!wanted || wanted[i]) status_json_queue(status, i, out);
    buffer_str(out, "]");
    status_json_text(out, "last_hour_from", sources[status->source]);
    status_json_log(status, out);
    status_json_instance(&status->local, out);
    status_json_open(out, "findings", "[");
    for (size_t i = 0; i < findings->count; i++) status_json_finding(status, &findings->items[i], out);
    buffer_str(out, "]}\n");
}
