// Gathers what `status` shows: from Redis, from the audit log here, and from the instance here.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/query/query.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "cli/status/local_instance.h"
#include "cli/status/status.h"
#include "cli/time_text.h"

enum {
    STAMPS_MAX = 50000, // jobs in progress, over all queues, whose stamps are read: some 20 ms of Redis
    TIMEOUT_S = 1,      // for the instance here
    LOG_TIMEOUT_MS = 500,
    BEHIND_MS = 5000, // a log may be so far behind and is counted from all the same
};

struct status_reader {
    status_t status;
    keyspace_t *keys;
    conn_t *conn;
    mono_t slow_at; // when what costs more is read again
};

status_reader_t *status_reader_new(const config_t *config, const atomic_bool *stop) {
    status_reader_t *reader = mem_alloc(sizeof *reader);
    reader->keys = keyspace_new(config);
    reader->conn = conn_new(&config->redis, "queue-sidecar-status", stop);
    reader->status.config = config;
    reader->status.keys = reader->keys;
    reader->status.counts = mem_array(config->queue_count, sizeof *reader->status.counts);
    reader->status.recent = mem_array(config->queue_count, sizeof *reader->status.recent);
    snprintf(reader->status.target, sizeof reader->status.target, "%s", conn_target(reader->conn));
    return reader;
}

static void status_forget_preflight(status_t *status) {
    for (size_t i = 0; i < status->preflight_count; i++) free(status->preflight[i].text);
    free(status->preflight);
    status->preflight = NULL;
    status->preflight_count = 0;
}

void status_reader_free(status_reader_t *reader) {
    status_forget_preflight(&reader->status);
    overview_free(&reader->status.view);
    free(reader->status.counts);
    free(reader->status.recent);
    conn_free(reader->conn);
    keyspace_free(reader->keys);
    free(reader);
}

// ---- Redis.

static void status_take_preflight(void *self, finding_t kind, const char *queue, const char *text) {
    status_t *status = self;
    size_t index = SIZE_MAX;
    for (size_t i = 0; queue && i < status->keys->queue_count; i++)
        if (strcmp(status->keys->queues[i].config->name, queue) == 0) index = i;
    status->preflight = mem_grown(status->preflight, status->preflight_count, sizeof *status->preflight);
    status->preflight[status->preflight_count++] = (status_preflight_t){.kind = kind, .queue = index, .text = mem_str(text)};
}

// Stamps, which alone tell of the oldest job in progress, are read where there are not too many.
static outcome_t status_count_queues(status_reader_t *reader) {
    status_t *status = &reader->status;
    const keyspace_t *keys = reader->keys;
    int64_t in_progress = 0;
    outcome_t outcome = census_take(reader->conn, keys, 0, keys->queue_count, CENSUS_ENDS, status->counts, &status->error);
    for (size_t i = 0; outcome == OUTCOME_OK && i < keys->queue_count; i++)
        if (status->counts[i].in_progress > 0) in_progress += status->counts[i].in_progress;
    if (outcome != OUTCOME_OK || in_progress > STAMPS_MAX) return outcome;
    return census_take(reader->conn, keys, 0, keys->queue_count, CENSUS_STAMPS, status->counts, &status->error);
}

static bool status_read_redis(status_reader_t *reader, bool slow) {
    status_t *status = &reader->status;
    overview_free(&status->view);
    if (overview_look(reader->conn, reader->keys, &status->view, &status->error) != OUTCOME_OK) return false;
    snprintf(status->server, sizeof status->server, "%s", conn_server(reader->conn));
    if (status_count_queues(reader) != OUTCOME_OK) return false;
    if (!slow) return true;
    status_forget_preflight(status);
    outcome_t outcome = preflight_look(reader->conn, reader->keys, status_take_preflight, status, &status->error);
    return outcome == OUTCOME_OK || outcome == OUTCOME_REFUSED;
}

// ---- The last hour, and the log here.

static void status_forget_recent(status_t *status) {
    status->source = STATUS_FROM_NOTHING;
    for (size_t i = 0; i < status->keys->queue_count; i++)
        status->recent[i] = (status_recent_t){.retried = STATUS_UNKNOWN, .failed = STATUS_UNKNOWN};
}

// What this log has copied of a stream; NULL = it has acknowledged nothing.
static const overview_copy_t *status_copied_by_log(const status_t *status, size_t queue) {
    const overview_queue_t *view = &status->view.queues[queue];
    for (size_t i = 0; i < view->copy_count; i++)
        if (strcmp(view->copies[i].instance, status->log.instance) == 0) return &view->copies[i];
    return NULL;
}

// The log lacks what happened lately: a full disk, or an instance that is gone. The streams have it.
static bool status_log_is_behind(const status_t *status) {
    for (size_t i = 0; i < status->keys->queue_count; i++) {
        const overview_queue_t *view = &status->view.queues[i];
        const overview_copy_t *copy = status_copied_by_log(status, i);
        if (*view->error || view->stream.length == 0) continue;
        if (copy && stream_id_compare(copy->position, view->stream.last) >= 0) continue;
        if (status->view.now_ms - stream_id_ms(copy ? copy->position : view->stream.first) > BEHIND_MS) return true;
    }
    return false;
}

static void status_read_audit_log(status_reader_t *reader, bool slow) {
    status_t *status = &reader->status;
    int64_t gaps = status->log.open_gaps;
    buffer_t why = {0};
    status->log = (status_log_t){.open_gaps = slow ? STATUS_UNKNOWN : gaps};
    audit_t *audit = audit_open(status->config->audit.path, AUDIT_READ, &why);
    if (audit) {
        audit_set_busy_timeout(audit, LOG_TIMEOUT_MS);
        snprintf(status->log.instance, sizeof status->log.instance, "%s", audit_instance(audit));
        status->log.there = !slow || audit_open_gaps(audit, &status->log.open_gaps, &why);
        if (status->log.there && status->reached && !status_log_is_behind(status) && status_read_log(audit, status, &why))
            status->source = STATUS_FROM_LOG;
        else if (why.len)
            status->log.there = false;
    } else {
        status->log.absent = access(status->config->audit.path, F_OK) != 0 && errno == ENOENT;
    }
    snprintf(status->log.why, sizeof status->log.why, "%s", buffer_text(&why));
    audit_close(audit);
    buffer_free(&why);
}

// ---- The instance here.

static void local_check_text(slice_t json, const char *pointer, char *out, size_t size) {
    json_value_t value;
    buffer_t text = {0};
    if (json_find(json, pointer, &value) == JSON_FOUND && value.type == JSON_STRING && json_decode(value.raw, &text))
        snprintf(out, size, "%s", buffer_text(&text));
    for (char *at = out; *at; at++)
        if (*at == '\n') *at = at[1] ? ';' : '\0'; // one line for each role that hangs
    buffer_free(&text);
}

static bool local_check_bool(slice_t json, const char *pointer) {
    json_value_t value;
    return json_find(json, pointer, &value) == JSON_FOUND && value.type == JSON_BOOL && slice_is(value.raw, "true");
}

static void local_instance_read_checks(slice_t json, local_instance_t *here) {
    char pointer[32];
    json_value_t value;
    for (; here->count < STATUS_CHECKS; here->count++) {
        local_check_t *check = &here->checks[here->count];
        snprintf(pointer, sizeof pointer, "/checks/%zu", here->count);
        if (json_find(json, pointer, &value) != JSON_FOUND) return;
        *check = (local_check_t){0};
        snprintf(pointer, sizeof pointer, "/checks/%zu/check", here->count);
        local_check_text(json, pointer, check->name, sizeof check->name);
        snprintf(pointer, sizeof pointer, "/checks/%zu/why", here->count);
        local_check_text(json, pointer, check->why, sizeof check->why);
        snprintf(pointer, sizeof pointer, "/checks/%zu/state", here->count);
        local_check_text(json, pointer, check->state, sizeof check->state);
        snprintf(pointer, sizeof pointer, "/checks/%zu/ok", here->count);
        check->ok = local_check_bool(json, pointer);
    }
}

const local_check_t *local_instance_check(const local_instance_t *here, const char *name) {
    for (size_t i = 0; i < here->count; i++)
        if (strcmp(here->checks[i].name, name) == 0) return &here->checks[i];
    return NULL;
}

void local_instance_read(const config_t *config, local_instance_t *here) {
    const char *why;
    buffer_t body = {0};
    *here = (local_instance_t){.asked = config->http.port != 0};
    int code = here->asked ? local_instance_ask(config, "/readyz", TIMEOUT_S, &body, &why) : 0;
    here->answered = code > 0;
    here->unresponsive = code < 0 && why == local_instance_unresponsive;
    here->ready = code == 200;
    if (code < 0) snprintf(here->why, sizeof here->why, "%s", why);
    buffer_t other = {0};
    const slice_t text = {buffer_text(&body), body.len};
    here->unrelated = here->answered && local_instance_is_unrelated(config, text, &other);
    if (here->unrelated) {
        snprintf(here->why, sizeof here->why, "%s", buffer_text(&other));
        here->answered = here->ready = false;
    }
    if (here->answered) local_instance_read_checks(text, here);
    buffer_free(&other);
    buffer_free(&body);
}

const status_t *status_read(status_reader_t *reader) {
    status_t *status = &reader->status;
    bool slow = mono_reached(reader->slow_at, mono_now());
    if (slow) reader->slow_at = mono_add(mono_now(), STATUS_SLOW_MS * NS_PER_MS);
    status->wall_ms = time_now_ms();
    status->reached = status_read_redis(reader, slow);
    if (!status->reached) reader->slow_at = mono_now(); // all anew when it is back
    status_forget_recent(status);
    status_read_audit_log(reader, slow);
    if (status->reached && status->source == STATUS_FROM_NOTHING) {
        status_read_streams(reader->conn, status);
        status->source = STATUS_FROM_STREAM;
    }
    local_instance_read(status->config, &status->here);
    return status;
}
