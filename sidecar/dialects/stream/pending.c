// Scans of a group's pending entries, and pages of entries for people. A page is one script, which walks from the last id of the
// page before.

#include "base/buffer.h"
#include "base/log.h"
#include "dialects/stream/internal.h"
#include "dialects/stream/scripts.h"
#include "queue/backup.h"
#include "redis/reply.h"

enum {
    BYTES = 1 << 20,      // one request reads no further entry after this many bytes
    CONSUMER_US = 5,      // of redis.slice for each consumer of a group whose consumers a script reads: Lua takes half of that
    LINE = 7,             // values of an entry in a reply
    STREAM_ID_BYTES = 48, // of two numbers of 64 bits, a dash, and a bracket
};

static const char ROLE[] = "monitor";

// The entries that a walk returns.
typedef enum walk {
    WALK_OVERDUE, // pending ones that may need an action
    WALK_PENDING,
    WALK_UNREAD,
} walk_t;

typedef struct pending_walk {
    const queue_config_t *queue; // borrowed
    walk_t walk;
    char from[STREAM_ID_BYTES]; // where the next page begins
    char to[STREAM_ID_BYTES];   // where the walk ends
} pending_walk_t;

static void *walk_open(const queue_keys_t *keys, walk_t of) {
    pending_walk_t *walk = mem_alloc(sizeof *walk);
    *walk = (pending_walk_t){.queue = keys->config, .walk = of};
    return walk;
}
static void *walk_open_overdue(const queue_keys_t *keys) { return walk_open(keys, WALK_OVERDUE); }
static void *walk_open_pending(const queue_keys_t *keys) { return walk_open(keys, WALK_PENDING); }
static void *walk_open_unread(const queue_keys_t *keys) { return walk_open(keys, WALK_UNREAD); }

static void walk_status_append(const call_t *call, void *self) {
    const pending_walk_t *walk = self;
    const stream_config_t *own = stream_config(walk->queue);
    request_script(call->conn, &script_stream_group, 3);
    request_text(call->conn, own->stream, walk->queue->errors, call_queue(call)->stamps, own->group);
    request_end(call->conn);
}

// An entry was added before a consumer got it. So one whose id is younger than the protected timeout is never overdue, unless
// somebody makes ids that are no times. A report may be of any entry.
static void walk_set_end(pending_walk_t *walk, const backup_status_t *status, int64_t last_ms) {
    int64_t old_ms = status->now - walk->queue->policy.protected_timeout_ms;
    bool all = walk->walk != WALK_OVERDUE || status->reports > 0 || last_ms > status->now;
    snprintf(walk->to, sizeof walk->to, "+");
    if (!all) snprintf(walk->to, sizeof walk->to, "%" PRId64, old_ms > 0 ? old_ms : 0);
}

static outcome_t walk_status_read(const call_t *call, void *self, backup_status_t *out) {
    pending_walk_t *walk = self;
    const stream_config_t *own = stream_config(walk->queue);
    redisReply *reply;
    *out = (backup_status_t){.config = walk->queue, .open = true};
    if (conn_read(call->conn, 0, &reply, call->error) != OUTCOME_OK) return call->error->outcome;
    out->now = reply_number(reply_at(reply, 1));
    out->entries = reply_int(reply_at(reply, 2));
    out->reports = reply_int(reply_at(reply, 4));
    out->stamps = reply_int(reply_at(reply, 5));
    snprintf(walk->from, sizeof walk->from, walk->walk == WALK_UNREAD ? "(%s" : "-", reply_text(reply_at(reply, 6)));
    walk_set_end(walk, out, strtoll(reply_text(reply_at(reply, 6)), NULL, 10));
    const int64_t consumers = reply_int(reply_at(reply, 3)), most = call->keys->config->redis.slice_us / CONSUMER_US;
    bool many = walk->walk == WALK_OVERDUE && stream_beats_by_consumer(walk->queue) && consumers > most;
    if (script_refusal(reply, call->error) == OUTCOME_OK && !reply_is(reply_at(reply, 0), "group"))
        redis_error_set(call->error, OUTCOME_REFUSED, "stream_group: unexpected reply");
    else if (many)
        redis_error_set(call->error, OUTCOME_REFUSED,
                        "the group \"%s\" of the stream \"%s\" has %" PRId64
                        " consumers, and heartbeat = \"" HEARTBEAT_OF_CONSUMER "\" reads all of them in one step, for which "
                        "redis.slice has room for %" PRId64 ": remove those that are gone and have nothing pending (XGROUP "
                        "DELCONSUMER), use a heartbeat key, or set redis.slice to %" PRId64 "us or more",
                        own->group, own->stream, consumers, most, consumers * CONSUMER_US);
    freeReplyObject(reply);
    return call->error->outcome;
}

static void walk_page_append(const call_t *call, void *self, size_t count) {
    const pending_walk_t *walk = self;
    const stream_config_t *own = stream_config(walk->queue);
    const queue_policy_t *policy = &walk->queue->policy;
    conn_t *conn = call->conn;
    bool overdue = walk->walk == WALK_OVERDUE;
    if (walk->walk == WALK_UNREAD) {
        request_script(conn, &script_stream_unread, 1);
        request_text(conn, own->stream, walk->from);
        request_int(conn, (int64_t)count, policy->max_payload, BYTES);
        request_end(conn);
        return;
    }
    request_script(conn, &script_stream_page, 2);
    request_text(conn, own->stream, walk->queue->errors, own->group, walk->from, walk->to);
    request_int(conn, overdue ? policy->protected_timeout_ms : 0, (int64_t)count, call_settle_us(call), policy->max_payload,
                BYTES);
    if (overdue && stream_beats_by_consumer(walk->queue))
        request_int(conn, own->consumer_timeout_ms);
    else
        request_text(conn, "");
    request_end(conn);
}

// Returns the payload of the entry. The page owns it, or the reply.
static slice_t walk_payload(const pending_walk_t *walk, const redisReply *fields, const char *id, backup_page_t *page) {
    const slice_t first = reply_slice(reply_at(fields, 0)), second = reply_slice(reply_at(fields, 1));
    if (fields->elements == 2 && slice_is(first, stream_config(walk->queue)->field) && stream_is_plain(second)) return second;
    buffer_t text = {0};
    if (fields->elements == 0) {
        stream_payload_deleted(&text, id);
    } else {
        stream_payload_begin(&text);
        for (size_t i = 0; i < fields->elements; i++) stream_payload_add(&text, i, reply_slice(fields->element[i]));
        stream_payload_end(&text);
    }
    page->made[page->made_count++] = text.data;
    return (slice_t){text.data, text.len};
}

// The life of an entry begins with its id; 0 = somebody has made an id that is no time. The sequence separates equal entries of
// one millisecond.
static int64_t walk_life_us(const char *id) {
    static const int64_t most = INT64_C(1) << 53;
    char *rest;
    int64_t ms = strtoll(id, &rest, 10), nth = *rest == '-' ? strtoll(rest + 1, NULL, 10) : 0;
    return ms > 0 && ms < most && nth >= 0 ? ms * 1000 + nth % 1000 : 0;
}

static void walk_note_large(const pending_walk_t *walk, const redisReply *reply, size_t at, backup_page_t *page) {
    page->large++;
    page->vacant++;
    page->large_from = stream_config(walk->queue)->stream;
    if (walk->walk == WALK_OVERDUE)
        log_warn(ROLE, walk->queue->name, "left an entry larger than max_payload in the stream",
                 F_STR("stream", stream_config(walk->queue)->stream), F_STR("id", reply_text(reply_at(reply, at))),
                 F_INT("bytes", reply_int(reply_at(reply, at + 4))), F_STR("sha1", reply_text(reply_at(reply, at + 5))),
                 F_INT("max_payload", walk->queue->policy.max_payload));
}

static void walk_add(const pending_walk_t *walk, const redisReply *reply, size_t at, backup_page_t *page) {
    const redisReply *fields = reply_at(reply, at + 6);
    const char *id = reply_text(reply_at(reply, at));
    if (!fields || fields->type != REDIS_REPLY_ARRAY || page->count == BACKUP_PAGE) return;
    if (reply_len(reply_at(reply, at + 5))) {
        walk_note_large(walk, reply, at, page);
        return;
    }
    pending_entry_t *pending = &page->pending[page->count];
    entry_t *entry = backup_page_add(page, walk_payload(walk, fields, id, page));
    *pending = (pending_entry_t){.id = id,
                                 .consumer = reply_slice(reply_at(reply, at + 1)),
                                 .idle_ms = reply_int(reply_at(reply, at + 2)),
                                 .deliveries = reply_int(reply_at(reply, at + 3)),
                                 .life_us = walk_life_us(id),
                                 .deleted = fields->elements == 0,
                                 .reported = digest_of(id, strlen(id))};
    entry->from = stream_config(walk->queue)->stream;
    entry->owner = reply_text(reply_at(reply, at + 1));
    entry->pending = pending;
}

static outcome_t walk_page_read(const call_t *call, void *self, backup_page_t *page) {
    pending_walk_t *walk = self;
    redisReply *reply;
    conn_expect_job(call->conn);
    if (conn_read(call->conn, 0, &reply, call->error) != OUTCOME_OK) return call->error->outcome;
    page->replies[page->reply_count++] = reply;
    if (!reply_is(reply_at(reply, 0), "page"))
        return redis_error_set(call->error, OUTCOME_REFUSED, "stream_page: unexpected reply");
    const char *last = reply_text(reply_at(reply, 1));
    if (!page->pending) page->pending = mem_array(BACKUP_PAGE, sizeof *page->pending);
    for (size_t at = 3; at + LINE <= reply->elements; at += LINE) walk_add(walk, reply, at, page);
    if (*last) snprintf(walk->from, sizeof walk->from, "(%s", last);
    page->ended = reply_int(reply_at(reply, 2)) == 1;
    return OUTCOME_OK;
}

static void walk_place(const void *self, char digits[JOBS_PLACE_SIZE]) {
    const pending_walk_t *walk = self;
    uint64_t ms = 0, seq = 0;
    sscanf(walk->from, "(%20" SCNu64 "-%20" SCNu64, &ms, &seq);
    snprintf(digits, JOBS_PLACE_SIZE, "%016" PRIx64 "%016" PRIx64, ms, seq);
}

// Goes forwards only: what a consumer has read meanwhile is not unread.
static bool walk_go_to(void *self, const char *digits) {
    pending_walk_t *walk = self;
    char place[JOBS_PLACE_SIZE];
    uint64_t ms, seq;
    if (strlen(digits) != 32 || sscanf(digits, "%16" SCNx64 "%16" SCNx64, &ms, &seq) != 2) return false;
    walk_place(walk, place);
    if (strcmp(digits, place) > 0) snprintf(walk->from, sizeof walk->from, "(%" PRIu64 "-%" PRIu64, ms, seq);
    return true;
}

static void walk_close(void *self) { free(self); }

#define WALK_MEMBERS(of)                                                                                                         \
    .open = walk_open_##of, .close = walk_close, .status_append = walk_status_append, .status_read = walk_status_read,           \
    .page_append = walk_page_append, .page_read = walk_page_read, .place = walk_place, .go_to = walk_go_to,                      \
    .read = stream_read_job

static void pending_settle(const queue_keys_t *keys, const entry_t *entry, const job_t *job, bool retry, settle_where_t *out,
                           buffer_t *again) {
    (void)keys, (void)job, (void)retry, (void)again;
    out->pending = entry->pending;
}

const scan_ops_t stream_scan = {WALK_MEMBERS(overdue), .bytes_tell = true,       .of_worker = true,
                                .reports = true,       .settle = pending_settle, .settle_append = stream_settle_append};
const scan_ops_t stream_pending = {WALK_MEMBERS(pending)};
const scan_ops_t stream_unread = {WALK_MEMBERS(unread)};
