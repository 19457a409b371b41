#include "dialects/private_queues/dead_letters.h"

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

enum {
    PAGE = 100,              // entries of one look
    PAGE_BYTES = 256 * 1024, // of them, and then at most one more entry
    POLL_S = 5,              // between two looks of which no change told: what we push ourselves ends a wake-up
    WALK_S = 3600,           // between two walks through the whole list
    RENEW_MS = 12 * 3600000, // marks older than this are made new by a walk
};

// Marks older than this, a day, go: no walk has met their entry for half of it.
#define FORGET_MS "86400000"

static const char ROLE[] = "monitor";

typedef struct letters {
    const char *dlq; // borrowed from the config; "" = there is none
    int64_t skip;    // where the next look begins; negative: so many from the tail
    bool changed;    // since the last look at the head
    bool walking;    // to the end of the list, whatever is known of it already
    mono_t walk_at;  // when the next such walk begins
} letters_t;

// One entry without a record: borrowed from the reply.
typedef struct letter {
    slice_t bytes;
    int64_t size;
    const char *mark;
} letter_t;

static void *letters_open(const queue_keys_t *keys) {
    letters_t *letters = mem_alloc(sizeof *letters);
    letters->dlq = keys->config->dlq;
    return letters;
}

static void letters_forget(void *self) {
    letters_t *letters = self;
    *letters = (letters_t){.dlq = letters->dlq};
}

static size_t letters_watched(const void *self, const char **out) {
    const letters_t *letters = self;
    out[0] = letters->dlq;
    return *letters->dlq ? 1 : 0;
}

static void append_arm(watch_call_t *call, const char *dlq) {
    if (!call->arm) return;
    request_begin(call->conn, "CLIENT");
    request_text(call->conn, "CACHING");
    request_text(call->conn, "YES");
    request_end(call->conn);
    request_begin(call->conn, "LLEN");
    request_text(call->conn, dlq);
    request_end(call->conn);
}

static outcome_t read_arm(const watch_call_t *call, redis_error_t *error) {
    redis_error_t worst = {0};
    for (int i = 0; call->arm && i < 2; i++) {
        redisReply *reply;
        if (conn_read(call->conn, 0, &reply, error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        if (error->outcome > worst.outcome) worst = *error;
        if (error->outcome == OUTCOME_OK) freeReplyObject(reply);
    }
    *error = worst;
    return worst.outcome;
}

static void append_look(const letters_t *letters, const watch_call_t *call) {
    const queue_keys_t *at = &call->keys->queues[call->queue];
    request_script(call->conn, &script_dead_letters, 3);
    request_text(call->conn, call->keys->locks[at->lock].key);
    request_text(call->conn, at->config->dlq);
    request_text(call->conn, at->recorded);
    request_text(call->conn, call->token);
    request_int(call->conn, letters->skip);
    request_int(call->conn, PAGE);
    request_int(call->conn, at->config->policy.max_payload);
    request_int(call->conn, PAGE_BYTES);
    request_int(call->conn, RENEW_MS);
    request_text(call->conn, letters->walking ? FORGET_MS : "");
    request_end(call->conn);
}

static void append_record(const watch_call_t *call, const letter_t *letter, int64_t now_ms) {
    const queue_keys_t *at = &call->keys->queues[call->queue];
    char sha256[DIGEST_HEX_SIZE];
    char id[EVENT_ID_SIZE];
    job_t job;
    job_read(call->json, &at->config->policy, letter->bytes, &job);
    digest_hex(&job.digest, sha256);
    event_t event = {.kind = slice_text("failed"),
                     .dialect = slice_text("private_queues"),
                     .queue = slice_text(at->config->name),
                     .job = slice_text(job.id),
                     .type = slice_text(job.type),
                     .reason = slice_text("dead_letter"),
                     .term = slice_text(call->token),
                     .sha256 = slice_text(sha256),
                     .payload = letter->bytes,
                     .created = job.created_ms,
                     .size = letter->size};
    event_id(&event, now_ms * 1000, 0, id); // nobody knows its life; the mark sees to it that there is one record
    event.event = slice_text(id);
    request_script(call->conn, &script_record_once, 4);
    request_text(call->conn, call->keys->locks[at->lock].key);
    request_text(call->conn, at->recorded);
    request_text(call->conn, at->failures);
    request_text(call->conn, at->meta);
    request_text(call->conn, call->token);
    request_text(call->conn, letter->mark);
    request_int(call->conn, call->keys->config->stream.max_bytes / 2); // the other half is for jobs that are to be ended
    record_append(call->conn, &event);
    request_end(call->conn);
}

static outcome_t record_all(watch_call_t *call, const letter_t *found, size_t count, int64_t now_ms, bool *full,
                            redis_error_t *error) {
    redis_error_t worst = {0};
    int64_t recorded = 0;
    for (size_t i = 0; i < count; i++) append_record(call, &found[i], now_ms);
    failpoint("letters_before");
    if (conn_flush(call->conn, error) != OUTCOME_OK) return error->outcome;
    failpoint("letters_sent");
    for (size_t i = 0; i < count; i++) {
        settled_t settled;
        if (settle_read(call->conn, &settled, error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        failpoint("letters_answered");
        if (error->outcome > worst.outcome) worst = *error;
        if (error->outcome != OUTCOME_OK) continue;
        if (settled == SETTLED) recorded++;
        if (settled == SETTLED_FULL) *full = true;
    }
    const char *queue = call->keys->queues[call->queue].config->name;
    if (recorded) {
        log_warn(ROLE, queue, "workers gave jobs up; their dead letters are recorded", F_INT("jobs", recorded));
        metric_add(&call->metrics->failed_recorded, recorded);
        metrics_end(call->metrics, "dead_letter", recorded);
    }
    if (*full)
        log_error(ROLE, queue, "the failure stream is half full: dead letters are not recorded until it shrinks",
                  F_INT("max_bytes", call->keys->config->stream.max_bytes));
    *error = worst;
    return worst.outcome;
}

static void say_large(const watch_call_t *call, const letter_t *letter) {
    const queue_config_t *queue = call->keys->queues[call->queue].config;
    metric_add(&call->metrics->large, 1);
    log_warn(ROLE, queue->name, "a dead letter is larger than max_payload and gets no record", F_STR("list", queue->dlq),
             F_INT("bytes", letter->size), F_STR("sha1", letter->mark), F_INT("max_payload", queue->policy.max_payload));
}

// The entries without a record; those that are too large are named once in each walk.
static size_t unknown_of(const letters_t *letters, const watch_call_t *call, const redisReply *reply, letter_t found[PAGE]) {
    int64_t most = call->keys->queues[call->queue].config->policy.max_payload;
    size_t count = 0;
    for (size_t i = 4; i + 2 < reply->elements && count < PAGE; i += 3) {
        letter_t letter = {{reply_text(reply->element[i]), reply_len(reply->element[i])},
                           reply_int(reply->element[i + 1]),
                           reply_text(reply->element[i + 2])};
        if (letter.size <= most)
            found[count++] = letter;
        else if (letters->walking)
            say_large(call, &letter);
    }
    return count;
}

// Where the next look begins. From the head, to which workers push, as long as there is news; then once at the tail, where some
// other worker may push; and from time to time through all of it.
static void go_on(letters_t *letters, watch_call_t *call, int64_t looked, bool ended, bool news) {
    call->next = call->now;
    if (letters->skip < 0) {
        letters->skip = 0;
        if (news)
            letters->walk_at = call->now; // whatever else is behind it
        else if (!letters->changed)
            call->next = mono_min(mono_add(call->now, POLL_S * NS_PER_S), letters->walk_at);
        return;
    }
    if (!ended && looked > 0 && (letters->walking || news)) {
        letters->skip += looked;
        return;
    }
    if (letters->walking && ended) {
        letters->walking = false;
        letters->walk_at = mono_add(call->now, WALK_S * NS_PER_S);
    }
    letters->skip = -PAGE;
}

static outcome_t read_look(letters_t *letters, watch_call_t *call, redisReply *reply, redis_error_t *error) {
    letter_t found[PAGE];
    bool full = false;
    if (reply_is(reply_at(reply, 0), "type"))
        return redis_error_set(error, OUTCOME_REFUSED, "%s holds a %s",
                               reply_is(reply_at(reply, 1), "dlq") ? call->keys->queues[call->queue].config->dlq
                                                                   : call->keys->queues[call->queue].recorded,
                               reply_text(reply_at(reply, 2)));
    if (script_refusal(reply, error) != OUTCOME_OK) return error->outcome;
    if (!reply_is(reply_at(reply, 0), "letters"))
        return redis_error_set(error, OUTCOME_REFUSED, "dead_letters: unexpected reply");
    int64_t now_ms = strtoll(reply_text(reply_at(reply, 1)), NULL, 10);
    size_t count = unknown_of(letters, call, reply, found);
    if (count && record_all(call, found, count, now_ms, &full, error) != OUTCOME_OK) return error->outcome;
    if (full)
        call->next = mono_add(call->now, POLL_S * NS_PER_S);
    else
        go_on(letters, call, reply_int(reply_at(reply, 2)), reply_int(reply_at(reply, 3)) == 1, count > 0);
    return OUTCOME_OK;
}

static outcome_t letters_step(void *self, watch_call_t *call, redis_error_t *error) {
    letters_t *letters = self;
    redisReply *reply;
    redis_error_t of_arm = {0};
    *error = (redis_error_t){0};
    call->next = mono_never();
    if (!*letters->dlq) return OUTCOME_OK;
    if (!letters->walking && letters->skip == 0 && mono_reached(letters->walk_at, call->now)) letters->walking = true;
    letters->changed = letters->skip != 0 && (letters->changed || call->changed);
    append_arm(call, letters->dlq);
    append_look(letters, call);
    if (read_arm(call, &of_arm) == OUTCOME_DISCONNECTED) {
        *error = of_arm;
        return OUTCOME_DISCONNECTED;
    }
    if (conn_read(call->conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    read_look(letters, call, reply, error);
    freeReplyObject(reply);
    if (error->outcome == OUTCOME_OK) *error = of_arm;
    return error->outcome;
}

const watch_ops_t private_letters_watch = {
    .open = letters_open,
    .close = free,
    .forget = letters_forget,
    .watched = letters_watched,
    .step = letters_step,
};
