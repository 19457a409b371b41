#include "inspect/sizes.h"

#include "config/dialect.h"
#include "dialects/dialect.h"
#include "queue/next_due.h"
#include "queue/scripts.h"
#include "queue/stamps.h"
#include "redis/reply.h"

enum {
    MAX_ROWS = 300,    // rows of one request: some 300 us of Redis
    MAX_AGAIN = 64,    // requests that search for the refused key
    MAX_SCANS = 16,    // queues whose stamps one pipeline reads
    SCAN_COUNT = 1000, // stamps of one queue in one request: some 300 us of Redis
};

// The kind of a row of the script.
typedef enum measure {
    MEASURE_READY = SIZE_READY,
    MEASURE_DELAYED = SIZE_DELAYED,
    MEASURE_BACKUP = SIZE_BACKUP,
    MEASURE_GROUP = SIZE_GROUP,
    MEASURE_ACTIVE = SIZE_ACTIVE,
    MEASURE_MARKER,
    MEASURE_RECORDS,
    MEASURE_RECORD_BYTES,
} measure_t;

static const char *const WORDS[] = {
    [MEASURE_READY] = "length", [MEASURE_DELAYED] = "due",   [MEASURE_BACKUP] = "alone",    [MEASURE_ACTIVE] = "active",
    [MEASURE_GROUP] = "group",  [MEASURE_MARKER] = "marker", [MEASURE_RECORDS] = "records", [MEASURE_RECORD_BYTES] = "bytes",
};

const sizes_t sizes_unknown = {.delayed = SIZES_UNKNOWN,
                               .ready = SIZES_UNKNOWN,
                               .in_progress = SIZES_UNKNOWN,
                               .next_due_ms = SIZES_UNKNOWN,
                               .behind_large_ms = SIZES_UNKNOWN,
                               .oldest_in_progress_ms = SIZES_UNKNOWN,
                               .records = SIZES_UNKNOWN,
                               .record_bytes = SIZES_UNKNOWN};

typedef struct row {
    size_t queue; // index in count_t.out
    measure_t measure;
    char *key;  // owned
    char *word; // owned; argument of the script: what to measure
} row_t;

typedef struct tally {
    const queue_keys_t *at;
    const dialect_ops_t *ops;
    bool ready_bad;         // the length of one ready list is unknown
    int64_t backup;         // entries of the backup list
    backup_status_t status; // the marker of the backup list
    buffer_t alone;         // bytes of the only entry of the backup list
    char cursor[24];        // cursor of the stamps; "" = the stamps are not wanted, or are all counted
    int64_t stamps;         // stamps read so far
    int64_t running;        // stamps of jobs in progress among these
} tally_t;

typedef struct count {
    conn_t *conn;
    const keyspace_t *keys;
    sizes_t *out;
    tally_t *tallies; // progress of each queue in `out`
    size_t count;
    row_t *rows; // owned
    size_t row_count;
    int again; // requests left to search for the refused key
} count_t;

// ---- The request.

// The word ends with `more`.
static void sizes_add_row(count_t *c, size_t queue, measure_t measure, const char *key, slice_t more) {
    char *word = mem_printf("%s%s%.*s", WORDS[measure], more.len ? " " : "", (int)more.len, more.data);
    c->rows = mem_grown(c->rows, c->row_count, sizeof *c->rows);
    c->rows[c->row_count++] = (row_t){.queue = queue, .measure = measure, .key = mem_str(key), .word = word};
}

// Jobs in workers' own lists are counted by stamps instead.
static void sizes_add_keys(count_t *c, size_t queue, sizes_depth_t depth) {
    const queue_keys_t *at = c->tallies[queue].at;
    redis_keys_t keys = config_redis_keys(at->config);
    for (size_t i = 0; i < keys.count; i++) {
        const redis_key_t *key = &keys.items[i];
        if (depth == SIZES_READY && key->size != SIZE_READY && key->size != SIZE_GROUP) continue;
        slice_t more = slice_text("");
        if (key->size == SIZE_GROUP) more = slice_text(at->config->dialect->consumer_group(at->config));
        if (key->size == SIZE_READY && key->type && strcmp(key->type, "zset") == 0) more = slice_text("zset");
        if (key->size == SIZE_ACTIVE) more = (slice_t){key->name, strlen(key->name) - strlen(key->role)};
        if (key->size == SIZE_BACKUP) sizes_add_row(c, queue, MEASURE_MARKER, at->sentinel, slice_text(""));
        if (key->size != SIZE_NONE) sizes_add_row(c, queue, (measure_t)key->size, key->name, more);
    }
    config_redis_keys_free(&keys);
    if (depth < SIZES_ENDS) return;
    sizes_add_row(c, queue, MEASURE_RECORDS, at->failures, slice_text(""));
    sizes_add_row(c, queue, MEASURE_RECORD_BYTES, at->meta, slice_text(""));
}

static void sizes_begin(count_t *c, size_t first, sizes_depth_t depth) {
    for (size_t i = 0; i < c->count; i++) {
        const queue_keys_t *at = &c->keys->queues[first + i];
        tally_t *tally = &c->tallies[i];
        c->out[i] = sizes_unknown;
        tally->at = at;
        tally->ops = dialect_ops(at->config->dialect);
        tally->status.config = at->config;
        tally->backup = SIZES_UNKNOWN;
        // A dialect that settles by a request of its own has the server's note about each entry in progress.
        const scan_ops_t *scan = dialect_scan(at->config);
        bool stamped = scan && !scan->settle_append && (at->config->policy.roles & ROLE_MONITOR);
        if (stamped && depth == SIZES_STAMPS) snprintf(tally->cursor, sizeof tally->cursor, "0");
        sizes_add_keys(c, i, depth);
    }
}

static void sizes_end(count_t *c) {
    for (size_t i = 0; i < c->row_count; i++) {
        free(c->rows[i].key);
        free(c->rows[i].word);
    }
    for (size_t i = 0; i < c->count; i++) buffer_free(&c->tallies[i].alone);
    free(c->rows);
    free(c->tallies);
}

// ---- The reply.

// Keeps the first error.
static void sizes_set_error(sizes_t *out, const char *key, const redis_error_t *error) {
    if (out->error.outcome != OUTCOME_OK) return;
    out->error = *error;
    redis_error_reword(&out->error, "%.120s: %.120s", key, error->text);
}

static void sizes_refuse(count_t *c, const row_t *row, const redis_error_t *error) {
    sizes_t *out = &c->out[row->queue];
    if (row->measure == MEASURE_READY) {
        c->tallies[row->queue].ready_bad = true;
        out->ready = SIZES_UNKNOWN;
    }
    sizes_set_error(out, row->key, error);
}

static int64_t sizes_due_ms(const queue_config_t *queue, double score) {
    int64_t us = dialect_ops(queue->dialect)->promote->due_us(queue, score);
    return us == INT64_MAX ? INT64_MAX : us <= 0 ? 0 : us / 1000 + (us % 1000 > 0);
}

static void sizes_read_delayed(sizes_t *out, const tally_t *tally, const char *text) {
    char *score;
    out->delayed = strtoll(text, &score, 10);
    if (out->delayed == 0 || !tally->ops->promote) return;
    out->next_due_ms = sizes_due_ms(tally->at->config, strtod(score, NULL));
}

static void sizes_read_group(sizes_t *out, const char *text, int64_t now_ms) {
    char *rest;
    int64_t unread = strtoll(text, &rest, 10);
    if (unread >= 0) out->ready = unread;
    out->in_progress = strtoll(rest, &rest, 10);
    int64_t idle_ms = strtoll(rest, NULL, 10);
    if (idle_ms >= 0) out->oldest_in_progress_ms = now_ms - idle_ms;
}

static void sizes_read_marker(tally_t *tally, const char *text) {
    char *random;
    tally->status.n = strtoll(text, &random, 10);
    if (*random == ' ' && strlen(random + 1) == sizeof tally->status.random - 1)
        memcpy(tally->status.random, random + 1, sizeof tally->status.random);
}

// Same estimate as in settle.lua. If somebody trimmed the stream by hand, the remaining entries count with their share of the
// bytes.
static void sizes_read_bytes(sizes_t *out, int64_t bytes, int64_t entries) {
    bool cut = entries > out->records && out->records >= 0;
    double share = cut ? (double)out->records / (double)entries : 1;
    out->record_bytes = bytes > 0 ? (int64_t)((double)bytes * share) : 0;
}

static void sizes_read_row(count_t *c, const row_t *row, const redisReply *reply) {
    const char *text = reply_text(reply);
    sizes_t *out = &c->out[row->queue];
    tally_t *tally = &c->tallies[row->queue];
    char *rest;
    if (*text == '!') {
        redis_error_t error;
        redis_error_from_reply(&error, text + 1, strlen(text + 1));
        sizes_refuse(c, row, &error);
        return;
    }
    int64_t number = strtoll(text, &rest, 10);
    switch (row->measure) {
    case MEASURE_READY:
        if (!tally->ready_bad) out->ready = number + (out->ready > 0 ? out->ready : 0);
        break;
    case MEASURE_DELAYED: sizes_read_delayed(out, tally, text); break;
    case MEASURE_BACKUP:
        tally->backup = number;
        if (*rest == ' ') buffer_add(&tally->alone, rest + 1, reply_len(reply) - (size_t)(rest + 1 - text));
        break;
    case MEASURE_ACTIVE:
        out->in_progress = number;
        number = strtoll(rest, NULL, 10);
        if (number > 0) out->oldest_in_progress_ms = number;
        break;
    case MEASURE_GROUP: sizes_read_group(out, text, out->now_ms); break;
    case MEASURE_MARKER: sizes_read_marker(tally, text); break;
    case MEASURE_RECORDS: out->records = number; break;
    case MEASURE_RECORD_BYTES: sizes_read_bytes(out, number, strtoll(rest, NULL, 10)); break; // after MEASURE_RECORDS
    }
}

static void sizes_append(const count_t *c, size_t from, size_t to) {
    request_script(c->conn, &script_sizes, (int)(to - from));
    for (size_t i = from; i < to; i++) request_text(c->conn, c->rows[i].key);
    for (size_t i = from; i < to; i++) request_text(c->conn, c->rows[i].word);
    request_end(c->conn);
}

// Returns the first row that the script has left out, because it had read large entries; `to` = none.
static size_t sizes_read_length(count_t *c, size_t from, size_t to, redis_error_t *refusal, redis_error_t *error) {
    redisReply *reply = conn_read_or_refusal(c->conn, refusal, error);
    if (!reply) return to;
    int64_t now_us = reply_number(reply_at(reply, 0));
    if (reply->elements > 1 && reply->elements - 1 < to - from) to = from + reply->elements - 1;
    for (size_t i = from; i < to; i++) {
        c->out[c->rows[i].queue].now_ms = now_us / 1000;
        sizes_read_row(c, &c->rows[i], reply_at(reply, i - from + 1));
    }
    freeReplyObject(reply);
    if (now_us <= 0) redis_error_set(refusal, OUTCOME_REFUSED, "sizes: unexpected reply");
    return to;
}

// Reads the rows [from, to) by as many requests as they need. False: Redis refused the rows from *refused on.
static bool sizes_read_rest(count_t *c, size_t from, size_t to, size_t *refused, redis_error_t *refusal, redis_error_t *error) {
    *refusal = (redis_error_t){0};
    while (from < to && refusal->outcome == OUTCOME_OK && error->outcome == OUTCOME_OK) {
        *refused = from;
        sizes_append(c, from, to);
        from = sizes_read_length(c, from, to, refusal, error);
    }
    return refusal->outcome == OUTCOME_OK;
}

// Redis refused these rows together. Halve them until the refused key is found.
static void sizes_split(count_t *c, size_t from, size_t to, const redis_error_t *refusal, redis_error_t *error) {
    const size_t edges[] = {from, from + (to - from) / 2, to};
    if (to - from == 1 || c->again <= 0) {
        for (size_t i = from; i < to; i++) sizes_refuse(c, &c->rows[i], refusal);
        return;
    }
    for (int half = 0; half < 2; half++) {
        redis_error_t again;
        size_t refused;
        c->again--;
        if (!sizes_read_rest(c, edges[half], edges[half + 1], &refused, &again, error))
            sizes_split(c, refused, edges[half + 1], &again, error);
    }
}

// The end of the next request. If there are several locks, queues are in several Cluster slots, and one script stays in one
// slot.
static size_t sizes_request_to(const count_t *c, size_t from, size_t limit) {
    size_t to = from + 1;
    while (to < limit && (!c->keys->per_tag || c->rows[to].queue == c->rows[from].queue)) to++;
    return to;
}

// Reads the rows [from, limit), in one round trip unless Redis refuses one.
static outcome_t sizes_read_some(count_t *c, size_t from, size_t limit, redis_error_t *error) {
    redis_error_t *refusals = mem_array(MAX_ROWS, sizeof *refusals); // index: first row of a request
    size_t *ends = mem_array(MAX_ROWS, sizeof *ends);                // likewise: the first row that was left out
    for (size_t at = from; at < limit; at = sizes_request_to(c, at, limit)) sizes_append(c, at, sizes_request_to(c, at, limit));
    for (size_t at = from; at < limit; at = sizes_request_to(c, at, limit))
        ends[at - from] = sizes_read_length(c, at, sizes_request_to(c, at, limit), &refusals[at - from], error);
    for (size_t at = from; at < limit && error->outcome == OUTCOME_OK; at = sizes_request_to(c, at, limit)) {
        size_t to = sizes_request_to(c, at, limit), refused = at;
        redis_error_t *refusal = &refusals[at - from];
        if (refusal->outcome == OUTCOME_OK) sizes_read_rest(c, ends[at - from], to, &refused, refusal, error);
        if (refusal->outcome != OUTCOME_OK) sizes_split(c, refused, to, refusal, error);
    }
    free(refusals);
    free(ends);
    return error->outcome;
}

// ---- Stamps.

// Counts one page of stamps. `reply` NULL: read no more stamps of this queue.
static void sizes_count_stamps(tally_t *tally, const redisReply *reply, sizes_t *out) {
    int64_t *oldest = &out->oldest_in_progress_ms;
    const redisReply *pairs = reply_at(reply, 1);
    for (size_t i = 1; pairs && pairs->type == REDIS_REPLY_ARRAY && i < pairs->elements; i += 2) {
        stamp_t stamp = stamp_unpack(reply_text(pairs->element[i]), reply_len(pairs->element[i]));
        tally->stamps++;
        if (stamp.seen <= 0) continue; // the job is not in progress, or the stamp is foreign
        tally->running++;
        if (*oldest == SIZES_UNKNOWN || stamp.seen < *oldest) *oldest = stamp.seen;
    }
    snprintf(tally->cursor, sizeof tally->cursor, "%s", reply_text(reply_at(reply, 0)));
    bool whole = strcmp(tally->cursor, "0") == 0;
    if (whole && !tally->ops->scan->rotation) out->in_progress = tally->running;
    if (!whole && tally->stamps >= SIZES_STAMPS_MAX) *oldest = SIZES_UNKNOWN;
    if (whole || tally->stamps >= SIZES_STAMPS_MAX) *tally->cursor = '\0';
}

// Reads the next page of stamps of some queues.
static outcome_t sizes_scan_some_stamps(const count_t *c, const size_t *queues, size_t count, redis_error_t *error) {
    for (size_t i = 0; i < count; i++) {
        const tally_t *tally = &c->tallies[queues[i]];
        request_begin(c->conn, "HSCAN", tally->at->stamps, tally->cursor, "COUNT");
        request_int(c->conn, SCAN_COUNT);
        request_end(c->conn);
    }
    for (size_t i = 0; i < count; i++) {
        tally_t *tally = &c->tallies[queues[i]];
        redis_error_t refusal;
        redisReply *reply = conn_read_or_refusal(c->conn, &refusal, error);
        if (refusal.outcome != OUTCOME_OK) sizes_set_error(&c->out[queues[i]], tally->at->stamps, &refusal);
        sizes_count_stamps(tally, reply, &c->out[queues[i]]);
        conn_reply_free(reply);
    }
    return error->outcome;
}

static outcome_t sizes_scan_stamps(const count_t *c, redis_error_t *error) {
    size_t queues[MAX_SCANS];
    size_t count;
    do {
        count = 0;
        for (size_t i = 0; i < c->count && count < MAX_SCANS; i++)
            if (*c->tallies[i].cursor && c->out[i].in_progress != 0) queues[count++] = i; // 0 jobs: no stamps to count
    } while (count && sizes_scan_some_stamps(c, queues, count, error) == OUTCOME_OK);
    return error->outcome;
}

// Do not count the marker as a job. A single entry is recognized by its bytes. Of several entries one is the marker, if the
// queue has a marker.
static void sizes_count_backup(const tally_t *tally, sizes_t *out) {
    if (tally->backup < 0) return;
    const scan_ops_t *scan = tally->ops->scan;
    out->in_progress = tally->backup;
    if (tally->alone.len && scan && scan->rotation) {
        slice_t entry = {tally->alone.data, tally->alone.len};
        if (scan->rotation->kind_of(&tally->status, entry) != ENTRY_JOB) out->in_progress = 0;
    } else if (tally->status.n > 0 && tally->backup > 1) {
        out->in_progress--;
    }
}

outcome_t sizes_read(const call_t *call, size_t count, sizes_depth_t depth, sizes_t *out) {
    count_t c = {.conn = call->conn, .keys = call->keys, .out = out, .count = count, .again = MAX_AGAIN};
    redis_error_t *error = call->error;
    *error = (redis_error_t){0};
    c.tallies = mem_array(count ? count : 1, sizeof *c.tallies);
    sizes_begin(&c, call->queue, depth);
    for (size_t from = 0; from < c.row_count && error->outcome == OUTCOME_OK; from += MAX_ROWS)
        sizes_read_some(&c, from, from + MAX_ROWS < c.row_count ? from + MAX_ROWS : c.row_count, error);
    for (size_t i = 0; i < count; i++) sizes_count_backup(&c.tallies[i], &out[i]);
    if (error->outcome == OUTCOME_OK) sizes_scan_stamps(&c, error);
    sizes_end(&c);
    return error->outcome;
}

outcome_t sizes_read_behind(const call_t *call, int64_t skip, sizes_t *out) {
    const next_due_request_t ask = {call->queue, skip};
    next_due_t next;
    int64_t now_us;
    next_due_append(call->conn, call->keys, &ask, 1, false);
    if (next_due_read(call->conn, 1, false, &next, &now_us, call->error) != OUTCOME_OK || *next.error)
        out->behind_large_ms = SIZES_UNKNOWN;
    else
        out->behind_large_ms = next.exists ? sizes_due_ms(call_queue(call)->config, next.score) : INT64_MAX;
    return call->error->outcome;
}

int64_t sizes_overdue_ms(const sizes_t *sizes) {
    bool due = sizes->next_due_ms >= 0 && sizes->next_due_ms < sizes->now_ms;
    return due ? sizes->now_ms - sizes->next_due_ms : 0;
}
