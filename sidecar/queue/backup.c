#include "queue/backup.h"

#include "queue/scripts.h"
#include "redis/reply.h"
#include "redis/tracking.h"

static const char WAIT_S[] = "0.01"; // seconds that Redis waits for the first entry

// Malformed fields count as absent, as in push_marker.lua.
static void backup_read_marker(const redisReply *reply, backup_status_t *out) {
    const char *random = reply_text(reply_at(reply, 0));
    const char *n = reply_text(reply_at(reply, 1));
    if (strspn(random, "0123456789abcdefABCDEF") == sizeof out->random - 1 &&
        reply_len(reply_at(reply, 0)) == sizeof out->random - 1)
        memcpy(out->random, random, sizeof out->random);
    if (*n && strspn(n, "0123456789") == reply_len(reply_at(reply, 1))) out->n = strtoll(n, NULL, 10);
}

void backup_reports_append(const call_t *call) {
    request_caching(call->conn);
    request_append(call->conn, "HLEN", call_queue(call)->config->errors);
}

int64_t backup_reports_read(const call_t *call, redis_error_t *error) {
    freeReplyObject(conn_read_next(call->conn, "CLIENT CACHING", error));
    return conn_read_int(call->conn, call_queue(call)->config->errors, error);
}

void backup_status_append(const call_t *call, const rotation_ops_t *rotation, const backup_status_t *known, bool arm) {
    const queue_keys_t *at = call_queue(call);
    conn_t *conn = call->conn;
    request_append(conn, "HMGET", at->sentinel, "random", "n");
    request_append(conn, "HLEN", at->stamps);
    request_append(conn, "TIME");
    if (arm) request_caching(conn);
    request_append(conn, "LLEN", at->config->backup);
    if (arm && rotation->reports) backup_reports_append(call);
    if (!arm && rotation->reports) request_append(conn, "HLEN", at->config->errors);
    request_begin(conn, "LPOS", at->config->backup);
    request_bytes(conn, known ? buffer_text(&known->marker) : "", known ? known->marker.len : 0);
    request_text(conn, "MAXLEN", "1");
    request_end(conn);
}

outcome_t backup_status_read(const call_t *call, const rotation_ops_t *rotation, bool arm, backup_status_t *out) {
    const queue_keys_t *at = call_queue(call);
    conn_t *conn = call->conn;
    redis_error_t *error = call->error;
    *out = (backup_status_t){.config = at->config, .rotation = rotation, .armed = arm};
    *error = (redis_error_t){0};
    redisReply *marker = conn_read_next(conn, at->sentinel, error);
    backup_read_marker(marker, out);
    freeReplyObject(marker);
    out->stamps = conn_read_int(conn, at->stamps, error);
    redisReply *time = conn_read_next(conn, NULL, error);
    out->now = reply_time_ms(time);
    freeReplyObject(time);
    if (arm) freeReplyObject(conn_read_next(conn, "CLIENT CACHING", error));
    out->entries = conn_read_int(conn, at->config->backup, error);
    if (arm && rotation->reports) out->reports = backup_reports_read(call, error);
    if (!arm && rotation->reports) out->reports = conn_read_int(conn, at->config->errors, error);
    redisReply *rank = conn_read_next(conn, at->config->backup, error);
    out->marker_alone = rank && rank->type == REDIS_REPLY_INTEGER && rank->integer == 0 && out->entries == 1;
    freeReplyObject(rank);
    return error->outcome;
}

void backup_page_clear(backup_page_t *page) {
    for (size_t i = 0; i < page->reply_count; i++) freeReplyObject(page->replies[i]);
    page->count = page->jobs = page->bytes = page->largest = page->held = page->others = page->vacant = page->large =
        page->reply_count = 0;
    for (size_t i = 0; i < page->made_count; i++) free(page->made[i]);
    page->made_count = 0;
    page->place = page->removed = 0;
    page->ended = page->in_place = false;
}

void backup_page_free(backup_page_t *page) {
    backup_page_clear(page);
    free(page->pending);
    page->pending = NULL;
}

entry_t *backup_page_add(backup_page_t *page, slice_t job) {
    entry_t *entry = &page->entries[page->count++];
    *entry = (entry_t){.bytes = job, .kind = ENTRY_JOB, .digest = digest_of(job.data, job.len)};
    page->bytes += job.len;
    page->held += job.len;
    page->jobs++;
    return entry;
}

static void backup_note_marker(backup_status_t *status, slice_t bytes) {
    if (bytes.len > MAX_MARKER) return;
    buffer_clear(&status->marker);
    buffer_add(&status->marker, bytes.data, bytes.len);
    status->marker_met = true;
}

static void backup_add_entry(backup_page_t *page, backup_status_t *status, const redisReply *reply) {
    slice_t bytes = {reply->str, reply->len};
    entry_kind_t kind = status->rotation ? status->rotation->kind_of(status, bytes) : ENTRY_JOB;
    if (kind == ENTRY_JOB) {
        backup_page_add(page, bytes);
        return;
    }
    page->entries[page->count++] = (entry_t){.bytes = bytes, .kind = kind};
    page->bytes += bytes.len;
    if (kind == ENTRY_MARKER) backup_note_marker(status, bytes);
}

// Returns whether the page keeps the bytes of its last entry. The size of an entry is unknown until the entry is read. If the
// entry exceeds the memory limit, the page keeps only the digest, which is enough for most verdicts. A later scan knows the size
// and reads the whole entry. An entry above max_payload is only reported.
static bool backup_keeps_last(const backup_status_t *status, backup_page_t *page) {
    entry_t *last = &page->entries[page->count - 1];
    if (last->kind != ENTRY_JOB) return true;
    size_t before = page->others + page->held - last->bytes.len;
    bool oversized = status->config && (int64_t)last->bytes.len > status->config->policy.max_payload;
    if (!oversized && (before == 0 || before + last->bytes.len <= PAGES_BYTES)) return true;
    page->held -= last->bytes.len;
    last->bytes.data = NULL;
    return false;
}

void backup_rotate_append(const call_t *call, size_t count, bool wait) {
    const char *backup = call_queue(call)->config->backup;
    conn_t *conn = call->conn;
    if (wait && count) {
        request_append(conn, "BRPOPLPUSH", backup, backup, WAIT_S);
        count--;
    }
    if (count == 0) return;
    request_append(conn, "RPOPLPUSH", backup, backup);
    request_repeat(conn, count - 1);
}

outcome_t backup_rotate_read(const call_t *call, backup_status_t *status, size_t count, backup_page_t *page) {
    redis_error_t *error = call->error;
    bool behind = false; // workers finish jobs while the page is under way: then the marker comes early
    *error = (redis_error_t){0};
    for (size_t i = 0; i < count && error->outcome != OUTCOME_DISCONNECTED; i++) {
        conn_expect_job(call->conn);
        redisReply *reply = conn_read_next(call->conn, NULL, error);
        if (reply && reply->type == REDIS_REPLY_STRING) {
            page->replies[page->reply_count++] = reply;
            backup_add_entry(page, status, reply);
            entry_t *last = &page->entries[page->count - 1];
            last->behind = behind;
            behind = behind || last->kind == ENTRY_MARKER;
            if (!backup_keeps_last(status, page)) freeReplyObject(page->replies[--page->reply_count]);
        } else if (reply) {
            page->ended = true;
            freeReplyObject(reply);
        }
    }
    return error->outcome;
}

static void backup_append_limited(const call_t *call, const backup_range_t *range) {
    request_script(call->conn, &script_list_page, 1);
    request_text(call->conn, call_queue(call)->config->backup);
    request_int(call->conn, (int64_t)range->skip, (int64_t)range->count, (int64_t)range->step, BACKUP_RANGE_BYTES,
                (int64_t)range->least);
    request_end(call->conn);
}

void backup_range_append(const call_t *call, const backup_range_t *range) {
    if (range->step) {
        backup_append_limited(call, range);
        return;
    }
    request_begin(call->conn, "LRANGE", call_queue(call)->config->backup);
    request_int(call->conn, -(int64_t)(range->skip + range->count), -(int64_t)range->skip - 1);
    request_end(call->conn);
}

outcome_t backup_range_read(const call_t *call, backup_status_t *status, const backup_range_t *range, backup_page_t *page) {
    conn_expect_job(call->conn);
    redisReply *reply = conn_read_next(call->conn, NULL, call->error);
    if (!reply) return call->error->outcome;
    size_t found = reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
    page->replies[page->reply_count++] = reply;
    page->ended = range->step ? reply_int(reply_at(reply, 0)) == 1 : found < range->count;
    page->in_place = true;
    for (size_t i = 0; i < found && page->count < BACKUP_PAGE; i++) { // list_page.lua replies from the tail to the head
        const redisReply *entry = reply->element[range->step ? i : found - 1 - i];
        if (entry->type == REDIS_REPLY_STRING) backup_add_entry(page, status, entry);
    }
    return OUTCOME_OK;
}

outcome_t backup_push_marker(const call_t *call, const backup_status_t *status, bool *pushed) {
    const queue_keys_t *at = call_queue(call);
    redisReply *reply;
    char n[24] = "";
    char random[MARKER_RANDOM_SIZE];
    buffer_t marker = {0};
    *pushed = false;
    if (status->n) snprintf(n, sizeof n, "%lld", (long long)status->n);
    memcpy(random, status->random, sizeof random);
    if (!*random) random_hex(random, MARKER_RANDOM_SIZE - 1);
    status->rotation->marker(status, random, &marker);
    call_script(call, &script_push_marker, 3);
    request_text(call->conn, at->config->backup, at->sentinel, call->token, n, random);
    request_bytes(call->conn, marker.data, marker.len);
    buffer_free(&marker);
    if (call_ask(call, &reply) != OUTCOME_OK) return call->error->outcome;
    *pushed = reply_is(reply_at(reply, 0), "pushed");
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t backup_remove_marker(const call_t *call, slice_t marker) {
    request_begin(call->conn, "LREM", call_queue(call)->config->backup);
    request_int(call->conn, 1); // rotation has just put the marker at the head
    request_bytes(call->conn, marker.data, marker.len);
    return request_ask(call->conn, NULL, call->error);
}
