#include "dialects/private_queues/private_queues.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "dialects/private_queues/scripts.h"
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
    RENEW_MS = 12 * 3600000, // a scan renews older marks
};

// A scan renews the mark of each entry in the list. So the entry of a mark that is a day old is gone.
#define FORGET_MS "86400000"

static const char ROLE[] = "monitor";

typedef struct dead_letters {
    const char *dlq;     // borrowed from the config; "" = the queue has no dlq
    int64_t skip;        // where the next read begins; negative: counted from the tail
    bool changed;        // the list may have changed since the last read of its head
    bool full_scan;      // read to the end of the list
    mono_t full_scan_at; // when the next full scan begins
} dead_letters_t;

// One entry without a record; borrows from the reply.
typedef struct letter {
    slice_t bytes;
    int64_t size;
    const char *mark;
} dead_letter_t;

static void *dead_letters_open(const queue_keys_t *keys) {
    dead_letters_t *dead_letters = mem_alloc(sizeof *dead_letters);
    dead_letters->dlq = keys->config->dlq;
    return dead_letters;
}

static void dead_letters_forget(void *self) {
    dead_letters_t *dead_letters = self;
    *dead_letters = (dead_letters_t){.dlq = dead_letters->dlq};
}

static size_t dead_letters_watched_keys(const void *self, const char **out) {
    const dead_letters_t *dead_letters = self;
    out[0] = dead_letters->dlq;
    return *dead_letters->dlq ? 1 : 0;
}

static void dead_letters_append_arm(side_task_call_t *call, const char *dlq) {
    if (!call->arm) return;
    request_caching(call->redis.conn);
    request_append(call->redis.conn, "LLEN", dlq);
}

static outcome_t dead_letters_read_arm(const side_task_call_t *call, redis_error_t *error) {
    redis_error_t worst = {0};
    for (int i = 0; call->arm && i < 2; i++) {
        redisReply *reply;
        if (conn_read(call->redis.conn, 0, &reply, error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        if (error->outcome > worst.outcome) worst = *error;
        if (error->outcome == OUTCOME_OK) freeReplyObject(reply);
    }
    *error = worst;
    return worst.outcome;
}

static void dead_letters_append_page(const dead_letters_t *dead_letters, const side_task_call_t *call) {
    const queue_keys_t *at = call_queue(&call->redis);
    request_script(call->redis.conn, &script_dead_letters, 3);
    request_text(call->redis.conn, call_lock(&call->redis), at->config->dlq, at->recorded, call->redis.token);
    request_int(call->redis.conn, dead_letters->skip, PAGE, at->config->policy.max_payload, PAGE_BYTES, RENEW_MS);
    request_text(call->redis.conn, dead_letters->full_scan ? FORGET_MS : "");
    request_end(call->redis.conn);
}

static void dead_letters_append_record(const side_task_call_t *call, const dead_letter_t *letter, int64_t now_ms) {
    const queue_keys_t *at = call_queue(&call->redis);
    char sha256[DIGEST_HEX_SIZE];
    char id[EVENT_ID_SIZE];
    job_t job;
    job_read(&at->config->policy, letter->bytes, &job);
    digest_hex(&job.digest, sha256);
    event_t event = {.kind = slice_text("failed"),
                     .dialect = slice_text("private_queues"),
                     .queue = slice_text(at->config->name),
                     .job = slice_text(job.id),
                     .type = slice_text(job.type),
                     .reason = slice_text("dead_letter"),
                     .term = slice_text(call->redis.token),
                     .sha256 = slice_text(sha256),
                     .payload = letter->bytes,
                     .created = job.created_ms,
                     .size = letter->size};
    event_id(&event, now_ms * 1000, 0, id); // the life of the job is unknown; the mark prevents a second record
    event.event = slice_text(id);
    request_script(call->redis.conn, &script_record_once, 4);
    request_text(call->redis.conn, call_lock(&call->redis), at->recorded, at->failures, at->meta, call->redis.token,
                 letter->mark);
    // Keep the other half of the stream for records of ended jobs.
    request_int(call->redis.conn, call->redis.keys->config->stream.max_bytes / 2);
    record_append(call->redis.conn, &event);
    request_end(call->redis.conn);
}

static outcome_t dead_letters_record(side_task_call_t *call, const dead_letter_t *found, size_t count, int64_t now_ms, bool *full,
                                     redis_error_t *error) {
    redis_error_t worst = {0};
    int64_t recorded = 0;
    for (size_t i = 0; i < count; i++) dead_letters_append_record(call, &found[i], now_ms);
    failpoint("letters_before");
    if (conn_flush(call->redis.conn, error) != OUTCOME_OK) return error->outcome;
    failpoint("letters_sent");
    for (size_t i = 0; i < count; i++) {
        settled_t settled;
        if (settle_read(call->redis.conn, &settled, error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        failpoint("letters_answered");
        if (error->outcome > worst.outcome) worst = *error;
        if (error->outcome != OUTCOME_OK) continue;
        if (settled == SETTLED) recorded++;
        if (settled == SETTLED_FULL) *full = true;
    }
    const char *queue = call_queue(&call->redis)->config->name;
    if (recorded) {
        log_warn(ROLE, queue, "recorded dead letters of workers", F_INT("jobs", recorded));
        metric_add(&call->metrics->failed_recorded, recorded);
        metrics_end(call->metrics, "dead_letter", recorded);
    }
    if (*full)
        log_error(ROLE, queue, "the failure stream is half full; no dead letter is recorded until it shrinks",
                  F_INT("max_bytes", call->redis.keys->config->stream.max_bytes));
    *error = worst;
    return worst.outcome;
}

static void dead_letters_log_large(const side_task_call_t *call, const dead_letter_t *letter) {
    const queue_config_t *queue = call_queue(&call->redis)->config;
    metric_add(&call->metrics->large, 1);
    log_warn(ROLE, queue->name, "did not record a dead letter that is larger than max_payload", F_STR("list", queue->dlq),
             F_INT("bytes", letter->size), F_STR("sha1", letter->mark), F_INT("max_payload", queue->policy.max_payload));
}

// Entries without a record. Large ones are logged once a scan.
static size_t dead_letters_find_unrecorded(const dead_letters_t *dead_letters, const side_task_call_t *call,
                                           const redisReply *reply, dead_letter_t found[PAGE]) {
    int64_t most = call_queue(&call->redis)->config->policy.max_payload;
    size_t count = 0;
    for (size_t i = 4; i + 2 < reply->elements && count < PAGE; i += 3) {
        dead_letter_t letter = {reply_slice(reply->element[i]), reply_int(reply->element[i + 1]),
                                reply_text(reply->element[i + 2])};
        if (letter.size <= most)
            found[count++] = letter;
        else if (dead_letters->full_scan)
            dead_letters_log_large(call, &letter);
    }
    return count;
}

// Sets the start of the next read. Workers push at the head, so reads stay at the head while they bring new entries. Other
// workers may push at the tail, so one read at the tail follows. Once an hour, reads go through the whole list.
static void dead_letters_advance(dead_letters_t *dead_letters, side_task_call_t *call, int64_t looked, bool ended, bool news) {
    call->next = call->now;
    if (dead_letters->skip < 0) {
        dead_letters->skip = 0;
        if (news)
            dead_letters->full_scan_at = call->now; // more new entries may be before these
        else if (!dead_letters->changed)
            call->next = mono_min(mono_add(call->now, POLL_S * NS_PER_S), dead_letters->full_scan_at);
        return;
    }
    if (!ended && looked > 0 && (dead_letters->full_scan || news)) {
        dead_letters->skip += looked;
        return;
    }
    if (dead_letters->full_scan && ended) {
        dead_letters->full_scan = false;
        dead_letters->full_scan_at = mono_add(call->now, FULL_SCAN_S * NS_PER_S);
    }
    dead_letters->skip = -PAGE;
}

static outcome_t dead_letters_read_page(dead_letters_t *dead_letters, side_task_call_t *call, redisReply *reply,
                                        redis_error_t *error) {
    dead_letter_t found[PAGE];
    bool full = false;
    if (reply_is(reply_at(reply, 0), "type"))
        return redis_error_set(error, OUTCOME_REFUSED, "%s holds a %s",
                               reply_is(reply_at(reply, 1), "dlq") ? call_queue(&call->redis)->config->dlq
                                                                   : call_queue(&call->redis)->recorded,
                               reply_text(reply_at(reply, 2)));
    if (script_refusal(reply, error) != OUTCOME_OK) return error->outcome;
    if (!reply_is(reply_at(reply, 0), "letters"))
        return redis_error_set(error, OUTCOME_REFUSED, "dead_letters: unexpected reply");
    int64_t now_ms = reply_number(reply_at(reply, 1));
    size_t count = dead_letters_find_unrecorded(dead_letters, call, reply, found);
    if (count && dead_letters_record(call, found, count, now_ms, &full, error) != OUTCOME_OK) return error->outcome;
    if (full)
        call->next = mono_add(call->now, POLL_S * NS_PER_S);
    else
        dead_letters_advance(dead_letters, call, reply_int(reply_at(reply, 2)), reply_int(reply_at(reply, 3)) == 1, count > 0);
    return OUTCOME_OK;
}

static outcome_t dead_letters_step(void *self, side_task_call_t *call) {
    redis_error_t *error = call->redis.error;
    dead_letters_t *dead_letters = self;
    redisReply *reply;
    redis_error_t of_arm = {0};
    *error = (redis_error_t){0};
    call->next = mono_never();
    if (!*dead_letters->dlq) return OUTCOME_OK;
    if (!dead_letters->full_scan && dead_letters->skip == 0 && mono_reached(dead_letters->full_scan_at, call->now))
        dead_letters->full_scan = true;
    dead_letters->changed = dead_letters->skip != 0 && (dead_letters->changed || call->changed);
    dead_letters_append_arm(call, dead_letters->dlq);
    dead_letters_append_page(dead_letters, call);
    if (dead_letters_read_arm(call, &of_arm) == OUTCOME_DISCONNECTED) {
        *error = of_arm;
        return OUTCOME_DISCONNECTED;
    }
    if (conn_read(call->redis.conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    dead_letters_read_page(dead_letters, call, reply, error);
    freeReplyObject(reply);
    if (error->outcome == OUTCOME_OK) *error = of_arm;
    return error->outcome;
}

const side_task_ops_t dead_letters_task = {
    .open = dead_letters_open,
    .close = free,
    .forget = dead_letters_forget,
    .watched_keys = dead_letters_watched_keys,
    .step = dead_letters_step,
};
