#include "dialects/dead_letters.h"

#include "base/buffer.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "queue/record.h"
#include "queue/scripts.h"
#include "queue/settle.h"
#include "redis/reply.h"
#include "redis/tracking.h"

enum {
    PAGE = 100,              // entries of one read
    PAGE_BYTES = 256 * 1024, // no further entry is read after this many bytes
    POLL_S = 5,              // interval of reads without a wake-up: the sidecar's own pushes clear tracking
    FULL_SCAN_S = 3600,      // between two scans of the whole list
    RENEW_MS = 12 * 3600000, // a read renews marks (KEYS[3] of dead_letters.lua) that are older
};

// The hourly scan renews the mark of each entry in the list. So a mark that is a day old has no entry, and can be removed.
#define FORGET_MS "86400000"

static const char ROLE[] = "monitor";

typedef struct dead_letters {
    const char *list;    // borrowed from the config
    int64_t skip;        // where the next read begins; negative: counted from the tail
    bool changed;        // the list may have changed since the last read of its head
    bool full_scan;      // read to the end of the list
    int64_t large;       // oversized entries that this look at the whole list has met
    mono_t full_scan_at; // when the next full scan begins
} dead_letters_t;

static void *dead_letters_open(const queue_keys_t *keys) {
    const char *list = config_dead_letters(keys->config);
    if (!*list) return NULL;
    dead_letters_t *dead_letters = mem_alloc(sizeof *dead_letters);
    dead_letters->list = list;
    return dead_letters;
}

static void dead_letters_forget(void *self) {
    dead_letters_t *dead_letters = self;
    *dead_letters = (dead_letters_t){.list = dead_letters->list};
}

static size_t dead_letters_watched_keys(const void *self, const char **out) {
    const dead_letters_t *dead_letters = self;
    out[0] = dead_letters->list;
    return 1;
}

static void dead_letters_append_page(const dead_letters_t *dead_letters, const call_t *call) {
    const queue_keys_t *at = call_queue(call);
    call_script(call, &script_dead_letters, 3);
    request_text(call->conn, dead_letters->list, at->recorded, call->token);
    request_int(call->conn, dead_letters->skip, PAGE, at->config->policy.max_payload, PAGE_BYTES, RENEW_MS);
    request_text(call->conn, dead_letters->full_scan ? FORGET_MS : "");
    request_end(call->conn);
}

static void dead_letters_append_record(const call_t *call, slice_t letter, const char *mark, int64_t now_ms) {
    const queue_keys_t *at = call_queue(call);
    char sha256[DIGEST_HEX_SIZE];
    char id[EVENT_ID_SIZE];
    job_t job;
    job_read(&at->config->policy, letter, &job);
    digest_hex(&job.digest, sha256);
    event_t event = {.kind = slice_text("failed"),
                     .dialect = slice_text(config_dialect_word(at->config->dialect)),
                     .queue = slice_text(at->config->name),
                     .job = slice_text(job.id),
                     .type = slice_text(job.type),
                     .reason = slice_text("dead_letter"),
                     .term = slice_text(call->token),
                     .group = slice_text(call->keys->config->group),
                     .sha256 = slice_text(sha256),
                     .payload = letter,
                     .traceparent = job_traceparent(&at->config->policy, letter),
                     .created = job.created_ms,
                     .size = (int64_t)letter.len};
    event_id(&event, now_ms * 1000, 0, id); // the life of the job is unknown; the mark prevents a second record
    call_script(call, &script_record_once, 4);
    request_text(call->conn, at->recorded, at->failures, at->meta, call->token, mark);
    // Above half of it copied records are trimmed, so dead letters may come up to there. The last quarter is for jobs that end.
    request_int(call->conn, call->keys->config->stream.max_bytes / 4 * 3);
    request_text(call->conn, at->config->policy.on_failure);
    record_append(call->conn, &event);
    request_end(call->conn);
}

// Whether the read belongs to a look at the whole list.
static bool dead_letters_looks(const dead_letters_t *dead_letters, const redisReply *reply) {
    return dead_letters->full_scan || (dead_letters->skip == 0 && reply_int(reply_at(reply, 3)) == 1);
}

// Appends the records of the entries that have none. Returns the number of records. Looks at the whole list log and count
// oversized entries.
static size_t dead_letters_append_records(const dead_letters_t *dead_letters, const side_task_call_t *task,
                                          const redisReply *reply, int64_t *large) {
    const queue_config_t *queue = call_queue(&task->redis)->config;
    int64_t now_ms = reply_number(reply_at(reply, 1));
    size_t count = 0;
    for (size_t i = 4; i + 2 < reply->elements; i += 3) {
        int64_t size = reply_int(reply->element[i + 1]);
        const char *mark = reply_text(reply->element[i + 2]);
        if (size <= queue->policy.max_payload) {
            dead_letters_append_record(&task->redis, reply_slice(reply->element[i]), mark, now_ms);
            count++;
        } else if (dead_letters_looks(dead_letters, reply)) {
            ++*large;
            anomaly_sample(task->metrics, ANOMALY_large_dead_letters, "%" PRId64 " bytes, sha1 %s, in %s", size, mark,
                           dead_letters->list);
            log_warn(ROLE, queue->name, "did not record a dead letter that is larger than max_payload",
                     F_STR("list", dead_letters->list), F_INT("bytes", size), F_STR("sha1", mark),
                     F_INT("max_payload", queue->policy.max_payload));
        }
    }
    return count;
}

// Sends the records. False: Redis did not write all records.
static bool dead_letters_send_records(side_task_call_t *task, size_t count) {
    const call_t *call = &task->redis;
    const char *queue = call_queue(call)->config->name;
    int64_t recorded = 0;
    bool full = false, failed = false;
    failpoint("letters_before");
    if (conn_flush(call->conn, call->error) != OUTCOME_OK) return false;
    failpoint("letters_sent");
    for (size_t i = 0; i < count; i++) {
        settled_t settled = SETTLED_CHANGED;
        failed |= !settle_read(call, &settled);
        failpoint("letters_answered");
        recorded += settled == SETTLED;
        full |= settled == SETTLED_FULL;
    }
    if (recorded) {
        log_warn(ROLE, queue, "recorded dead letters of workers", F_INT("jobs", recorded));
        metric_add(&task->metrics->failed_recorded, recorded);
        metrics_end(task->metrics, "dead_letter", recorded);
    }
    if (full) {
        task->next = mono_add(task->now, POLL_S * NS_PER_S);
        log_error(ROLE, queue, "the failure stream is nearly full or out of ids; no dead letter is recorded until it has room",
                  F_INT("max_bytes", call->keys->config->stream.max_bytes));
    }
    return !full && !failed;
}

// Sets the start of the next read. Workers push at the head, so reads go on from the head while they find new entries. Some
// workers may push at the tail, so one read at the tail follows. Once an hour, reads go through the whole list.
static void dead_letters_advance(dead_letters_t *dead_letters, side_task_call_t *task, int64_t looked, bool ended, bool news) {
    task->next = task->now;
    if (dead_letters->skip < 0) {
        dead_letters->skip = 0;
        if (news)
            dead_letters->full_scan_at = task->now; // more new entries may be before these
        else if (!dead_letters->changed)
            task->next = mono_min(mono_add(task->now, POLL_S * NS_PER_S), dead_letters->full_scan_at);
        return;
    }
    if (!ended && looked > 0 && (dead_letters->full_scan || news)) {
        dead_letters->skip += looked;
        return;
    }
    if (dead_letters->full_scan && ended) {
        dead_letters->full_scan = false;
        dead_letters->full_scan_at = mono_add(task->now, FULL_SCAN_S * NS_PER_S);
    }
    dead_letters->skip = -PAGE;
}

static void dead_letters_note_large(const dead_letters_t *dead_letters, const side_task_call_t *task, const redisReply *reply,
                                    int64_t large) {
    if (dead_letters_looks(dead_letters, reply) && reply_int(reply_at(reply, 3)) == 1)
        anomaly_set(task->metrics, ANOMALY_large_dead_letters, large, reply_number(reply_at(reply, 1)));
}

static void dead_letters_read_page(dead_letters_t *dead_letters, side_task_call_t *task, const redisReply *reply) {
    redis_error_t *error = task->redis.error;
    if (script_refusal(reply, error) != OUTCOME_OK) return;
    if (!reply_is(reply_at(reply, 0), "letters")) {
        redis_error_set(error, OUTCOME_REFUSED, "dead_letters: unexpected reply");
        return;
    }
    int64_t large = dead_letters->skip == 0 ? 0 : dead_letters->large;
    size_t count = dead_letters_append_records(dead_letters, task, reply, &large);
    dead_letters_note_large(dead_letters, task, reply, large);
    if (count > 0 && !dead_letters_send_records(task, count)) return; // this page is read again
    dead_letters->large = large;
    dead_letters_advance(dead_letters, task, reply_int(reply_at(reply, 2)), reply_int(reply_at(reply, 3)) == 1, count > 0);
}

static outcome_t dead_letters_step(void *self, side_task_call_t *task) {
    dead_letters_t *dead_letters = self;
    conn_t *conn = task->redis.conn;
    redis_error_t *error = task->redis.error;
    if (!dead_letters->full_scan && dead_letters->skip == 0 && mono_reached(dead_letters->full_scan_at, task->now))
        dead_letters->full_scan = true;
    dead_letters->changed = dead_letters->skip != 0 && (dead_letters->changed || task->changed);
    if (task->arm) request_caching(conn);
    if (task->arm) request_append(conn, "LLEN", dead_letters->list);
    dead_letters_append_page(dead_letters, &task->redis);
    for (int i = 0; task->arm && i < 2; i++) conn_reply_free(conn_read_next(conn, NULL, error));
    conn_expect_job(conn);
    redisReply *reply = conn_read_next(conn, NULL, error);
    if (reply) dead_letters_read_page(dead_letters, task, reply);
    conn_reply_free(reply);
    return error->outcome;
}

const side_task_ops_t dead_letters_task = {
    .open = dead_letters_open,
    .close = free,
    .forget = dead_letters_forget,
    .watched_keys = dead_letters_watched_keys,
    .step = dead_letters_step,
};
