#include "queue/backup.h"

#include <stdio.h>
#include <stdlib.h>

#include "queue/scripts.h"
#include "redis/reply.h"
#include "redis/tracking.h"

static const char WAIT_S[] = "0.01";

// Keeps the worst error of several replies and the name of its key.
static void backup_read_number(conn_t *conn, const char *key, int64_t *out, redis_error_t *worst) {
    redisReply *reply;
    redis_error_t error;
    if (worst->outcome == OUTCOME_DISCONNECTED) return;
    if (conn_read(conn, 0, &reply, &error) == OUTCOME_OK) {
        if (out && reply->type == REDIS_REPLY_INTEGER) *out = reply->integer;
        freeReplyObject(reply);
    } else if (error.outcome > worst->outcome) {
        redis_error_set(worst, error.outcome, "%s: %s", key, error.text);
    }
}

static void backup_read_sentinel(conn_t *conn, const char *key, backup_look_t *out, redis_error_t *worst) {
    redisReply *reply;
    redis_error_t error;
    if (conn_read(conn, 0, &reply, &error) != OUTCOME_OK) {
        redis_error_set(worst, error.outcome, "%s: %s", key, error.text);
        return;
    }
    // Malformed fields count as absent, as in push_sentinel.lua.
    const char *random = reply_text(reply_at(reply, 0));
    const char *n = reply_text(reply_at(reply, 1));
    if (strspn(random, "0123456789abcdefABCDEF") == sizeof out->random - 1 &&
        reply_len(reply_at(reply, 0)) == sizeof out->random - 1)
        memcpy(out->random, random, sizeof out->random);
    if (*n && strspn(n, "0123456789") == reply_len(reply_at(reply, 1))) out->n = strtoll(n, NULL, 10);
    freeReplyObject(reply);
}

void backup_look_append(const call_t *call, const rotation_ops_t *rotation, const backup_look_t *known, bool arm) {
    const queue_keys_t *at = call_queue(call);
    conn_t *conn = call->conn;
    request_append(conn, "HMGET", at->sentinel, "random", "n");
    request_append(conn, "HLEN", at->stamps);
    request_append(conn, "TIME");
    if (arm) request_caching(conn);
    request_append(conn, "LLEN", at->config->backup);
    if (arm && rotation->reports) request_caching(conn);
    if (rotation->reports) request_append(conn, "HLEN", at->config->errors);
    request_begin(conn, "LPOS", at->config->backup);
    request_bytes(conn, known ? known->sentinel : "", known ? known->sentinel_len : 0);
    request_text(conn, "MAXLEN", "1");
    request_end(conn);
}

static void backup_read_time(conn_t *conn, int64_t *now, redis_error_t *worst) {
    redisReply *reply;
    redis_error_t error;
    if (worst->outcome == OUTCOME_DISCONNECTED) return;
    if (conn_read(conn, 0, &reply, &error) == OUTCOME_OK) {
        *now = reply_time_ms(reply);
        freeReplyObject(reply);
    } else if (error.outcome > worst->outcome) {
        *worst = error;
    }
}

outcome_t backup_look_read(const call_t *call, const rotation_ops_t *rotation, bool arm, backup_look_t *out) {
    const queue_keys_t *at = call_queue(call);
    conn_t *conn = call->conn;
    redis_error_t *error = call->error;
    *out = (backup_look_t){.config = at->config, .rotation = rotation};
    *error = (redis_error_t){0};
    backup_read_sentinel(conn, at->sentinel, out, error);
    backup_read_number(conn, at->stamps, &out->stamps, error);
    backup_read_time(conn, &out->now, error);
    if (arm) backup_read_number(conn, "CLIENT CACHING", NULL, error);
    backup_read_number(conn, at->config->backup, &out->entries, error);
    if (arm && rotation->reports) backup_read_number(conn, "CLIENT CACHING", NULL, error);
    if (rotation->reports) backup_read_number(conn, at->config->errors, &out->reports, error);
    int64_t at_head = -1;
    backup_read_number(conn, at->config->backup, &at_head, error);
    out->sentinel_alone = at_head == 0 && out->entries == 1;
    out->armed = arm;
    return error->outcome;
}

void backup_page_clear(backup_page_t *page) {
    for (size_t i = 0; i < page->reply_count; i++) freeReplyObject(page->replies[i]);
    page->count = page->jobs = page->bytes = page->held = page->others = page->vacant = page->reply_count = 0;
    page->ended = page->standing = false;
}

entry_t *backup_page_add(backup_page_t *page, slice_t job) {
    entry_t *entry = &page->entries[page->count++];
    *entry = (entry_t){.bytes = job, .kind = ENTRY_JOB, .digest = digest_of(job.data, job.len)};
    page->bytes += job.len;
    page->held += job.len;
    page->jobs++;
    return entry;
}

static void backup_note_sentinel(backup_look_t *look, slice_t bytes) {
    if (bytes.len > sizeof look->sentinel) return;
    memcpy(look->sentinel, bytes.data, bytes.len);
    look->sentinel_len = bytes.len;
    look->sentinel_met = true;
}

static void backup_add_entry(backup_page_t *page, backup_look_t *look, const redisReply *reply) {
    slice_t bytes = {reply->str, reply->len};
    entry_kind_t kind = look->rotation ? look->rotation->kind_of(look, bytes) : ENTRY_JOB;
    if (kind == ENTRY_JOB) {
        backup_page_add(page, bytes);
        return;
    }
    page->entries[page->count++] = (entry_t){.bytes = bytes, .kind = kind};
    page->bytes += bytes.len;
    if (kind == ENTRY_SENTINEL) backup_note_sentinel(look, bytes);
}

// The size of an entry is unknown until it is read. A scan keeps only the digest of an entry that exceeds the memory limit. Most
// verdicts need no more. A later scan knows the sizes and reads the whole entry. The scan only reports an entry above
// max_payload.
static bool backup_holds_last(const backup_look_t *look, backup_page_t *page) {
    entry_t *last = &page->entries[page->count - 1];
    if (last->kind != ENTRY_JOB) return true;
    size_t before = page->others + page->held - last->bytes.len;
    bool named = look->config && (int64_t)last->bytes.len > look->config->policy.max_payload;
    if (!named && (before == 0 || before + last->bytes.len <= PAGES_BYTES)) return true;
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

outcome_t backup_rotate_read(const call_t *call, backup_look_t *look, size_t count, backup_page_t *page) {
    redis_error_t *error = call->error;
    redis_error_t worst = {0};
    for (size_t i = 0; i < count; i++) {
        redisReply *reply;
        if (conn_read(call->conn, 0, &reply, error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        if (error->outcome != OUTCOME_OK) {
            if (error->outcome > worst.outcome) worst = *error;
        } else if (reply->type == REDIS_REPLY_STRING) {
            page->replies[page->reply_count++] = reply;
            backup_add_entry(page, look, reply);
            if (!backup_holds_last(look, page)) freeReplyObject(page->replies[--page->reply_count]);
        } else {
            page->ended = true;
            freeReplyObject(reply);
        }
    }
    *error = worst;
    return worst.outcome;
}

void backup_range_append(const call_t *call, size_t skip, size_t count) {
    request_begin(call->conn, "LRANGE", call_queue(call)->config->backup);
    request_int(call->conn, -(int64_t)(skip + count), -(int64_t)skip - 1);
    request_end(call->conn);
}

outcome_t backup_range_read(const call_t *call, backup_look_t *look, size_t count, backup_page_t *page) {
    redisReply *reply;
    if (conn_read(call->conn, 0, &reply, call->error) != OUTCOME_OK) return call->error->outcome;
    size_t found = reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
    page->replies[page->reply_count++] = reply;
    page->ended = found < count;
    page->standing = true;
    for (size_t i = found; i > 0 && page->count < BACKUP_PAGE; i--)
        if (reply->element[i - 1]->type == REDIS_REPLY_STRING) backup_add_entry(page, look, reply->element[i - 1]);
    return OUTCOME_OK;
}

static void sentinel_random(char random[SENTINEL_RANDOM_SIZE]) {
    unsigned char bits[(SENTINEL_RANDOM_SIZE - 1) / 2];
    random_bytes(bits, sizeof bits);
    for (size_t i = 0; i < sizeof bits; i++) snprintf(random + 2 * i, 3, "%02x", bits[i]);
}

outcome_t backup_push_sentinel(const call_t *call, const backup_look_t *look, bool *pushed) {
    const queue_keys_t *at = call_queue(call);
    redisReply *reply;
    char n[24] = "";
    char random[SENTINEL_RANDOM_SIZE];
    buffer_t sentinel = {0};
    *pushed = false;
    if (look->n) snprintf(n, sizeof n, "%lld", (long long)look->n);
    memcpy(random, look->random, sizeof random);
    if (!*random) sentinel_random(random);
    look->rotation->sentinel(look, random, &sentinel);
    call_script(call, &script_push_sentinel, 3);
    request_text(call->conn, at->config->backup, at->sentinel, call->token, n, random);
    request_bytes(call->conn, sentinel.data, sentinel.len);
    buffer_free(&sentinel);
    if (call_ask(call, &reply) != OUTCOME_OK) return call->error->outcome;
    *pushed = reply_is(reply_at(reply, 0), "planted");
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t backup_remove_sentinel(const call_t *call, slice_t sentinel) {
    redisReply *reply;
    request_begin(call->conn, "LREM", call_queue(call)->config->backup);
    request_int(call->conn, 1); // it has just been rotated to the head
    request_bytes(call->conn, sentinel.data, sentinel.len);
    if (request_ask(call->conn, &reply, call->error) == OUTCOME_OK) freeReplyObject(reply);
    return call->error->outcome;
}
