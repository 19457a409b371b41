#include "queue/backup.h"

#include <stdio.h>
#include <stdlib.h>

#include "dialects/dialect.h"
#include "queue/scripts.h"
#include "redis/reply.h"

static const char WAIT_S[] = "0.01";

static const pass_ops_t *pass_of(const queue_config_t *config) { return dialect_ops(config->dialect)->pass; }

static void append_key(conn_t *conn, const char *command, const char *key) {
    request_begin(conn, command);
    request_text(conn, key);
    request_end(conn);
}

static void append_caching(conn_t *conn) {
    request_begin(conn, "CLIENT");
    request_text(conn, "CACHING");
    request_text(conn, "YES");
    request_end(conn);
}

// Reads one number; a refusal is kept with the name of the key, and the worst of several is told.
static void read_number(conn_t *conn, const char *key, int64_t *out, redis_error_t *worst) {
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

static void read_sentinel(conn_t *conn, const char *key, backup_look_t *out, redis_error_t *worst) {
    redisReply *reply;
    redis_error_t error;
    if (conn_read(conn, 0, &reply, &error) != OUTCOME_OK) {
        redis_error_set(worst, error.outcome, "%s: %s", key, error.text);
        return;
    }
    // What is no random part or number of ours counts as none, as plant.lua sees it too.
    const char *random = reply_text(reply_at(reply, 0));
    const char *n = reply_text(reply_at(reply, 1));
    if (strspn(random, "0123456789abcdefABCDEF") == sizeof out->random - 1 &&
        reply_len(reply_at(reply, 0)) == sizeof out->random - 1)
        memcpy(out->random, random, sizeof out->random);
    if (*n && strspn(n, "0123456789") == reply_len(reply_at(reply, 1))) out->n = strtoll(n, NULL, 10);
    freeReplyObject(reply);
}

void backup_look_append(conn_t *conn, const keyspace_t *keys, size_t queue, const backup_look_t *known, bool arm) {
    const queue_keys_t *at = &keys->queues[queue];
    bool reports = pass_of(at->config)->reports;
    request_begin(conn, "HMGET");
    request_text(conn, at->sentinel);
    request_text(conn, "random");
    request_text(conn, "n");
    request_end(conn);
    append_key(conn, "HLEN", at->stamps);
    request_begin(conn, "TIME");
    request_end(conn);
    if (arm) append_caching(conn);
    append_key(conn, "LLEN", at->config->backup);
    if (arm && reports) append_caching(conn);
    if (reports) append_key(conn, "HLEN", at->config->errors);
    request_begin(conn, "LPOS");
    request_text(conn, at->config->backup);
    request_bytes(conn, known ? known->sentinel : "", known ? known->sentinel_len : 0);
    request_text(conn, "MAXLEN");
    request_text(conn, "1");
    request_end(conn);
}

static void read_time(conn_t *conn, int64_t *now, redis_error_t *worst) {
    redisReply *reply;
    redis_error_t error;
    if (worst->outcome == OUTCOME_DISCONNECTED) return;
    if (conn_read(conn, 0, &reply, &error) == OUTCOME_OK) {
        *now =
            strtoll(reply_text(reply_at(reply, 0)), NULL, 10) * 1000 + strtoll(reply_text(reply_at(reply, 1)), NULL, 10) / 1000;
        freeReplyObject(reply);
    } else if (error.outcome > worst->outcome) {
        *worst = error;
    }
}

outcome_t backup_look_read(conn_t *conn, const keyspace_t *keys, size_t queue, bool arm, backup_look_t *out,
                           redis_error_t *error) {
    const queue_keys_t *at = &keys->queues[queue];
    bool reports = pass_of(at->config)->reports;
    *out = (backup_look_t){.config = at->config};
    *error = (redis_error_t){0};
    read_sentinel(conn, at->sentinel, out, error);
    read_number(conn, at->stamps, &out->stamps, error);
    read_time(conn, &out->now, error);
    if (arm) read_number(conn, "CLIENT CACHING", NULL, error);
    read_number(conn, at->config->backup, &out->entries, error);
    if (arm && reports) read_number(conn, "CLIENT CACHING", NULL, error);
    if (reports) read_number(conn, at->config->errors, &out->reports, error);
    int64_t at_head = -1;
    read_number(conn, at->config->backup, &at_head, error);
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

static void note_sentinel(backup_look_t *look, slice_t bytes) {
    if (bytes.len > sizeof look->sentinel) return;
    memcpy(look->sentinel, bytes.data, bytes.len);
    look->sentinel_len = bytes.len;
    look->sentinel_met = true;
}

static void add_entry(backup_page_t *page, backup_look_t *look, kind_of_fn *kind_of, const redisReply *reply) {
    slice_t bytes = {reply->str, reply->len};
    entry_kind_t kind = kind_of ? kind_of(look, bytes) : ENTRY_JOB;
    if (kind == ENTRY_JOB) {
        backup_page_add(page, bytes);
        return;
    }
    page->entries[page->count++] = (entry_t){.bytes = bytes, .kind = kind};
    page->bytes += bytes.len;
    if (kind == ENTRY_SENTINEL) note_sentinel(look, bytes);
}

// Nobody knows how large entries are before they are read. What there is no room for is told by its digest, which is enough for
// most; the rest comes in a pass that knows how large they are. What is too large for us is only named.
static bool is_held(const backup_look_t *look, backup_page_t *page) {
    entry_t *last = &page->entries[page->count - 1];
    if (last->kind != ENTRY_JOB) return true;
    size_t before = page->others + page->held - last->bytes.len;
    bool named = look->config && (int64_t)last->bytes.len > look->config->policy.max_payload;
    if (!named && (before == 0 || before + last->bytes.len <= PAGES_BYTES)) return true;
    page->held -= last->bytes.len;
    last->bytes.data = NULL;
    return false;
}

static kind_of_fn *kinds_of(const backup_look_t *look) { return look->config ? pass_of(look->config)->kind_of : NULL; }

void backup_rotate_append(conn_t *conn, const keyspace_t *keys, size_t queue, size_t count, bool wait) {
    const char *backup = keys->queues[queue].config->backup;
    if (wait && count) {
        request_begin(conn, "BRPOPLPUSH");
        request_text(conn, backup);
        request_text(conn, backup);
        request_text(conn, WAIT_S);
        request_end(conn);
        count--;
    }
    if (count == 0) return;
    request_begin(conn, "RPOPLPUSH");
    request_text(conn, backup);
    request_text(conn, backup);
    request_end(conn);
    request_repeat(conn, count - 1);
}

outcome_t backup_rotate_read(conn_t *conn, backup_look_t *look, size_t count, backup_page_t *page, redis_error_t *error) {
    kind_of_fn *kind_of = kinds_of(look);
    redis_error_t worst = {0};
    for (size_t i = 0; i < count; i++) {
        redisReply *reply;
        if (conn_read(conn, 0, &reply, error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        if (error->outcome != OUTCOME_OK) {
            if (error->outcome > worst.outcome) worst = *error;
        } else if (reply->type == REDIS_REPLY_STRING) {
            page->replies[page->reply_count++] = reply;
            add_entry(page, look, kind_of, reply);
            if (!is_held(look, page)) freeReplyObject(page->replies[--page->reply_count]);
        } else {
            page->ended = true;
            freeReplyObject(reply);
        }
    }
    *error = worst;
    return worst.outcome;
}

void backup_range_append(conn_t *conn, const keyspace_t *keys, size_t queue, size_t skip, size_t count) {
    request_begin(conn, "LRANGE");
    request_text(conn, keys->queues[queue].config->backup);
    request_int(conn, -(int64_t)(skip + count));
    request_int(conn, -(int64_t)skip - 1);
    request_end(conn);
}

outcome_t backup_range_read(conn_t *conn, backup_look_t *look, size_t count, backup_page_t *page, redis_error_t *error) {
    kind_of_fn *kind_of = kinds_of(look);
    redisReply *reply;
    if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    size_t found = reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
    page->replies[page->reply_count++] = reply;
    page->ended = found < count;
    page->standing = true;
    for (size_t i = found; i > 0 && page->count < BACKUP_PAGE; i--)
        if (reply->element[i - 1]->type == REDIS_REPLY_STRING) add_entry(page, look, kind_of, reply->element[i - 1]);
    return OUTCOME_OK;
}

static void make_random(char random[SENTINEL_RANDOM_SIZE]) {
    unsigned char bits[(SENTINEL_RANDOM_SIZE - 1) / 2];
    random_bytes(bits, sizeof bits);
    for (size_t i = 0; i < sizeof bits; i++) snprintf(random + 2 * i, 3, "%02x", bits[i]);
}

outcome_t backup_plant(conn_t *conn, const keyspace_t *keys, size_t queue, const char *token, const backup_look_t *look,
                       bool *planted, bool *fenced, redis_error_t *error) {
    const queue_keys_t *at = &keys->queues[queue];
    redisReply *reply;
    char n[24] = "";
    char random[SENTINEL_RANDOM_SIZE];
    buffer_t sentinel = {0};
    *planted = *fenced = false;
    if (look->n) snprintf(n, sizeof n, "%lld", (long long)look->n);
    memcpy(random, look->random, sizeof random);
    if (!*random) make_random(random);
    pass_of(at->config)->sentinel(look, random, &sentinel);
    request_script(conn, &script_plant, 3);
    request_text(conn, keys->locks[at->lock].key);
    request_text(conn, at->config->backup);
    request_text(conn, at->sentinel);
    request_text(conn, token);
    request_text(conn, n);
    request_text(conn, random);
    request_bytes(conn, sentinel.data, sentinel.len);
    buffer_free(&sentinel);
    if (request_ask(conn, &reply, error) != OUTCOME_OK) return error->outcome;
    *planted = reply_is(reply_at(reply, 0), "planted");
    *fenced = reply_is(reply_at(reply, 0), "fenced");
    if (reply_is(reply_at(reply, 0), "type"))
        redis_error_set(error, OUTCOME_REFUSED, "%s holds a %s", reply_text(reply_at(reply, 1)), reply_text(reply_at(reply, 2)));
    freeReplyObject(reply);
    return error->outcome;
}

outcome_t backup_remove_sentinel(conn_t *conn, const keyspace_t *keys, size_t queue, slice_t sentinel, redis_error_t *error) {
    redisReply *reply;
    request_begin(conn, "LREM");
    request_text(conn, keys->queues[queue].config->backup);
    request_int(conn, 1); // it has just been rotated to the head
    request_bytes(conn, sentinel.data, sentinel.len);
    if (request_ask(conn, &reply, error) == OUTCOME_OK) freeReplyObject(reply);
    return error->outcome;
}
